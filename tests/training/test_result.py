"""What a run comes to is written whole, or told in one line."""

from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.training.result import write_results


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    for text in ("one\n", "two\n"):
        write_results(tmp_path / "result.json", text)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("result.json", "two\n")]


def test_a_disk_that_takes_nothing_is_told_with_what_to_do(tmp_path):
    with pytest.raises(ToolkitError, match=r"result.json could not be written: .* Make room"):
        write_results(tmp_path / "nowhere" / "result.json", "text")
