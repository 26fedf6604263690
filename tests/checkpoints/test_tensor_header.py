import pytest
import torch
from safetensors.torch import save_file

from toolkit.checkpoints import tensor_files
from toolkit.common.errors import ToolkitError


def test_a_file_of_tensors_passes(tmp_path):
    save_file({"a": torch.zeros(3)}, tmp_path / "a")
    tensor_files.check_header(tmp_path / "a")


def test_a_header_longer_than_the_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(ToolkitError, match=r"must hold the 1,152,921,504,606,846,976 bytes of its"):
        tensor_files.check_header(tmp_path / "a")


def test_a_header_longer_than_ours_ever_are_is_refused(tmp_path):
    with open(tmp_path / "a", "wb") as file:
        file.write((5 << 20).to_bytes(8, "little"))
        file.truncate(6 << 20)
    with pytest.raises(ToolkitError, match=r"must have at most 4,194,304 bytes, but has 5,242,880"):
        tensor_files.check_header(tmp_path / "a")
