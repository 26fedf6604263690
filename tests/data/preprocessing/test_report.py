import pytest

from toolkit.data.preprocessing.report import Progress, print_summary
from toolkit.reporting.json_output import Output


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.report.LINE_SECONDS", 0.0)


def test_without_a_terminal_progress_is_lines_with_rate_and_time_left(at_once, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with Progress("binarizing", 1000) as progress:
        progress.advance(250, 5000)
        progress.advance(500, 5000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["binarizing  25%", "binarizing  75%"]
    assert all("tokens/s" in line and "s left" in line for line in lines)


def test_on_a_terminal_progress_is_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with Progress("binarizing", 1000) as progress:
        progress.advance(500, 5000)
    shown = capsys.readouterr().err
    assert "50%" in shown
    assert "tokens/s" in shown


def test_more_bytes_than_were_expected_are_no_more_than_all(at_once, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with Progress("binarizing", 10) as progress:
        progress.advance(25, 1)
    assert "100%" in capsys.readouterr().err


def test_the_summary_of_a_pipe_is_aligned_lines(capsys):
    counts = {"unknown": 5, "overlength": 1, "lost_tokens": 3, "empty": 0}
    part = {"documents": 2, "items": 40, "elements": 1000}
    split = {**counts, "columns": {"tokens": {"parts": [part, part]}}}
    meta = {
        "settings": {"max_item_tokens": 64, "overlength": "skip"},
        "vocabulary": {"symbols": 8004},
        "splits": {"train": split, "valid": {**split, "overlength": 0, "lost_tokens": 0}},
    }
    with Output(None) as output:
        print_summary("data[red]", meta, 2.0, 2, output)
    assert capsys.readouterr().out.splitlines() == [
        "data[red]: 8,004 symbols",
        "split  documents  items  tokens  unknown  over 64  tokens lost  parts",
        "train          4     80   2,000   0.250%        1            3      2",
        "valid          4     80   2,000   0.250%        0            0      2",
        "train: 1 item too long, left out",
        "binarized 4,000 tokens in 2.0 s with 2 workers: 2,000 tokens/s",
    ]
