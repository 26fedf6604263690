import pytest

from toolkit.common.errors import ToolkitError
from toolkit.reporting.event_log import read_records, to_scalars, write_records


def test_records_are_read_back_with_their_numbers(tmp_path):
    records = [{"update": 1, "loss": 0.1}, {"update": 2, "loss": float("inf"), "path": "a b"}]
    write_records(tmp_path / "log", records)
    assert read_records(tmp_path / "log") == records
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_last_line_that_a_killed_writer_tore_is_left_out(tmp_path):
    (tmp_path / "log").write_text('{"update": 1}\n{"update": 2, "lo')
    assert read_records(tmp_path / "log") == [{"update": 1}]
    (tmp_path / "log").write_text('{"update": 1}\n{"update": 2}')
    assert read_records(tmp_path / "log") == [{"update": 1}, {"update": 2}]


@pytest.mark.parametrize("line", ["hello", "[1]", "3"])
def test_a_log_with_a_broken_line_is_named_with_its_place(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"update": 1}}\n{line}\n{{"update": 2}}\n')
    with pytest.raises(ToolkitError, match="one JSON object a line, but line 2 is '"):
        read_records(tmp_path / "metrics.jsonl")


def test_a_missing_log_is_one_clear_error(tmp_path):
    with pytest.raises(ToolkitError, match="must be a log of toolkit-train, but cannot be read"):
        read_records(tmp_path / "metrics.jsonl")


def test_dashboards_name_figures_by_their_split_but_for_valid():
    values = {"update": 3, "loss": 2, "path": "x", "best": None}
    assert to_scalars("train", values) == {"train/loss": 2.0}
    assert to_scalars("valid", {**values, "subset": "valid"}) == {"valid/loss": 2.0}
    assert to_scalars("valid", {**values, "subset": "test"}) == {"valid/test/loss": 2.0}
