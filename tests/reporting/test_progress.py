import io

import pytest
from rich.console import Console as Terminal

from toolkit.reporting.progress import Work, format_duration


@pytest.fixture
def made():
    """Work that tells a text file, and the clock that it looks at."""

    def make(total, **options):
        out, times = io.StringIO(), [0.0]
        terminal = Terminal(file=out, width=120, **options)
        return (
            Work("validating", total, "examples", terminal=terminal, now=lambda: times[0]),
            out,
            times,
        )

    return make


def test_elsewhere_a_line_is_told_every_five_seconds_with_rate_and_time_left(made):
    work, out, times = made(900)
    with work:
        for times[0] in (2.0, 4.0, 6.0, 8.0):
            work.advance(60)
    assert out.getvalue() == "validating: 180 of 900 examples, 30 a second, 0:24 left\n"


def test_without_a_total_it_tells_what_is_done(made):
    work, out, times = made(None)
    with work:
        times[0] = 10.0
        work.advance(3000)
    assert out.getvalue() == "validating: 3,000 examples, 300 a second\n"


def test_on_a_terminal_there_is_a_bar(made):
    work, out, times = made(100, force_terminal=True)
    with work:
        work.bar.refresh()
        assert "0 of 100 examples" in out.getvalue() and "second" not in out.getvalue()
        times[0] = 1.0
        work.advance(50)
        work.bar.refresh()
    assert "50 of 100 examples, 50 a second, 0:01 left" in out.getvalue()


def test_the_clock_shows_hours_only_when_there_are_some():
    assert [format_duration(5.0), format_duration(125.2), format_duration(3723.0)] == [
        "0:05",
        "2:05",
        "1:02:03",
    ]
