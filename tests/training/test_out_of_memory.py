import pytest
import torch

from toolkit.common.errors import first_line, is_out_of_memory
from toolkit.training.device import run_in_memory


def test_run_in_memory_returns_the_result():
    assert run_in_memory(lambda: 3) == (3, "")


def test_run_in_memory_returns_the_first_line_of_a_memory_error():
    def fail():
        raise torch.OutOfMemoryError("CUDA out of memory.\nSee the docs")

    assert run_in_memory(fail) == (None, "CUDA out of memory")


def test_run_in_memory_raises_other_errors():
    def fail():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_in_memory(fail)


def test_is_out_of_memory_recognizes_only_memory_errors():
    assert is_out_of_memory(torch.OutOfMemoryError()) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_first_line_of_an_empty_error_is_its_type():
    assert first_line(MemoryError()) == "MemoryError"
