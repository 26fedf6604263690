import os

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.event_log import read_records, to_scalars, write_records


def test_records_are_read_back_with_their_values(tmp_path):
    records = [{"update": 1, "loss": 0.1}, {"update": 2, "loss": float("inf"), "path": "a b"}]
    write_records(tmp_path / "log", records)
    assert read_records(tmp_path / "log") == records
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_read_records_skips_an_incomplete_last_line(tmp_path):
    (tmp_path / "log").write_text('{"update": 1}\n{"update": 2, "lo')
    assert read_records(tmp_path / "log") == [{"update": 1}]
    (tmp_path / "log").write_text('{"update": 1}\n{"update": 2}')
    assert read_records(tmp_path / "log") == [{"update": 1}, {"update": 2}]


@pytest.mark.parametrize("line", ["hello", "[1]", "3"])
def test_read_records_names_the_line_that_is_not_json(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"update": 1}}\n{line}\n{{"update": 2}}\n')
    with pytest.raises(ToolkitError, match="one JSON object per line, but line 2 is '"):
        read_records(tmp_path / "metrics.jsonl")


def test_read_records_rejects_a_missing_log(tmp_path):
    with pytest.raises(ToolkitError, match="must be a readable log of toolkit-train"):
        read_records(tmp_path / "metrics.jsonl")


def test_scalars_are_named_by_event_and_subset():
    values = {"update": 3, "loss": 2, "path": "x", "best": None}
    assert to_scalars("train", values) == {"train/loss": 2.0}
    assert to_scalars("valid", {**values, "subset": "valid"}) == {"valid/loss": 2.0}
    assert to_scalars("valid", {**values, "subset": "test"}) == {"valid/test/loss": 2.0}


def test_read_records_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "log")
    with pytest.raises(ToolkitError, match="must be a regular file, but is a pipe"):
        read_records(tmp_path / "log")
