import pytest
import torch

from toolkit.common.errors import is_out_of_memory
from toolkit.training.gradient import run_in_memory


def test_run_in_memory_raises_other_errors():
    def fail():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_in_memory(fail)


def test_is_out_of_memory_recognizes_only_memory_errors():
    assert is_out_of_memory(torch.OutOfMemoryError()) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
