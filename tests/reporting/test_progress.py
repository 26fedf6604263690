import io

import pytest

from toolkit.reporting.plain_text import Console
from toolkit.reporting.progress import Progress, format_duration


@pytest.fixture
def make_progress():
    """A progress that prints to a text buffer, the buffer, and the time that it reads."""

    def make(total, unit="examples", **options):
        out, times = io.StringIO(), [0.0]
        console = Console(file=out, width=120, **options)
        now = lambda: times[0]  # noqa: E731
        return Progress("validating", total, unit, console=console, now=now), out, times

    return make


def test_progress_without_a_terminal_is_a_line_every_five_seconds(make_progress):
    progress, out, times = make_progress(900)
    with progress:
        for times[0] in (2.0, 4.0, 6.0, 8.0):
            progress.advance(60)
    assert out.getvalue() == "validating: 180 of 900 examples, 30 examples/s, 0:24 left\n"


def test_progress_without_a_total_shows_count_and_rate(make_progress):
    progress, out, times = make_progress(None)
    with progress:
        times[0] = 10.0
        progress.advance(3000)
    assert out.getvalue() == "validating: 3,000 examples, 300 examples/s\n"


def test_progress_toward_a_total_in_another_unit_is_a_share(make_progress):
    progress, out, times = make_progress(1000, "tokens")
    with progress:
        times[0] = 10.0
        progress.advance(250, 5000)  # bytes, tokens
        times[0] = 30.0
        progress.advance(1000, 10000)  # more bytes than expected
    assert out.getvalue().splitlines() == [
        "validating: 25%, 500 tokens/s, 0:30 left",
        "validating: 100%, 500 tokens/s, 0:00 left",
    ]


def test_progress_on_a_terminal_is_a_bar(make_progress):
    progress, out, times = make_progress(100, force_terminal=True)
    with progress:
        progress.bar.refresh()
        assert "0 of 100 examples" in out.getvalue() and "/s" not in out.getvalue()
        times[0] = 1.0
        progress.advance(50)
        progress.bar.refresh()
    assert "50 of 100 examples, 50 examples/s, 0:01 left" in out.getvalue()


def test_durations_show_hours_only_if_there_are_some():
    durations = [format_duration(seconds) for seconds in (5.0, 125.2, 3723.0)]
    assert durations == ["0:05", "2:05", "1:02:03"]
