import pytest

from toolkit.data.report import Progress


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr("toolkit.data.report.LINE_SECONDS", 0.0)


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
