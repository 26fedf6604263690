"""Files of results are written completely, or the error is one line."""

from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.training.result import write_results


def test_write_results_replaces_the_file_and_leaves_no_others(tmp_path):
    for text in ("one\n", "two\n"):
        write_results(tmp_path / "result.json", text)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("result.json", "two\n")]


def test_write_results_says_what_to_do_if_the_disk_fails(tmp_path):
    with pytest.raises(ToolkitError, match=r"result.json could not be written: .* Make room"):
        write_results(tmp_path / "nowhere" / "result.json", "text")
