import pytest
import torch

from toolkit.training.out_of_memory import first_line, is_out_of_memory, run_in_memory


def test_a_result_is_returned_without_a_message():
    assert run_in_memory(lambda: 3) == (3, "")


def test_a_lack_of_memory_is_returned_as_its_first_line():
    def fail():
        raise torch.OutOfMemoryError("CUDA out of memory.\nSee the docs")

    assert run_in_memory(fail) == (None, "CUDA out of memory")


def test_other_errors_are_raised():
    def fail():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        run_in_memory(fail)


def test_only_errors_about_memory_are_taken_for_a_lack_of_memory():
    assert is_out_of_memory(torch.OutOfMemoryError()) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_an_error_without_a_message_is_named_by_its_type():
    assert first_line(MemoryError()) == "MemoryError"
