import os

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json, read_text


def test_a_small_file_is_read(tmp_path):
    (tmp_path / "a").write_text('{"b": "\N{LATIN SMALL LETTER E WITH ACUTE}"}', "utf-8")
    assert read_json(tmp_path / "a") == {"b": "\N{LATIN SMALL LETTER E WITH ACUTE}"}


def test_a_large_file_is_not(tmp_path):
    with open(tmp_path / "a", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ToolkitError, match=r"at most 16,777,216 bytes, but has 1,099,511,627,776"):
        read_text(tmp_path / "a")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(ToolkitError, match="must be a plain file, but is a folder, pipe or device"):
        read_text(tmp_path / "a")


def test_endless_nesting_is_no_json(tmp_path):
    (tmp_path / "a").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "a")
