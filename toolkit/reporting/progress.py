"""Progress bars."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich import progress as rich_progress

from toolkit.reporting.plain_text import Console, print_plain

LINE_SECONDS = 5.0


class Progress:
    """Rate and time left, on stderr: a bar on a terminal, a line every few seconds elsewhere.

    Work that takes less than `line_seconds` prints no line. Without a total only the count and the
    rate are shown. `parent` is a bar on screen already, which gets one more line.
    """

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str,
        *,
        quiet: bool = False,
        console: Console | None = None,
        parent: rich_progress.Progress | None = None,
        draw: bool = True,
        line_seconds: float = LINE_SECONDS,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.description, self.total, self.unit, self.now = description, total, unit, now
        self.console = console or Console(stderr=True, quiet=quiet)
        self.done, self.line_seconds = 0, line_seconds
        self.counted: int | None = None
        self.started_at = self.printed_at = now()
        draw = draw and self.console.is_terminal and not quiet
        self.parent = parent
        self.bar = parent or (create_bar(self.console) if draw else None)

    def __enter__(self) -> Progress:
        if self.bar:
            text = self.text(self.started_at)
            self.task = self.bar.add_task(self.description, total=self.total, text=text)
            if not self.parent:
                self.bar.start()
        return self

    def advance(self, done: int, count: int | None = None) -> None:
        """Add to what is done; `count` is the number of units if the total is in another one."""
        self.done += done
        if count is not None:
            self.counted = (self.counted or 0) + count
        now = self.now()
        if self.bar:
            self.bar.update(self.task, completed=self.done, text=self.text(now))
        elif now - self.printed_at >= self.line_seconds:
            self.printed_at = now
            print_plain(self.console, f"{self.description}: {self.text(now)}")

    def text(self, now: float) -> str:
        """`3,200 of 9,000 examples, 640 examples/s, 0:09 left`; with counts `36%, 640 tokens/s`."""
        seconds = max(now - self.started_at, 1e-9)
        of = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{self.done:,}{of} {self.unit}"]
        if self.counted is not None and self.total is not None:
            parts = [f"{min(1.0, self.done / max(1, self.total)):.0%}"]
        if self.done:
            count = self.done if self.counted is None else self.counted
            parts.append(f"{count / seconds:,.0f} {self.unit}/s")
            if self.total is not None:
                left = max(self.total - self.done, 0) * seconds / self.done
                parts.append(f"{format_duration(left)} left")
        return ", ".join(parts)

    def __exit__(self, *error: object) -> None:
        if self.parent:
            self.parent.remove_task(self.task)
        elif self.bar:
            self.bar.stop()


def create_bar(console: Console) -> rich_progress.Progress:
    """A description, a bar that fills the line, and a text; it disappears when it stops."""
    description = rich_progress.TextColumn("{task.description}")
    text = rich_progress.TextColumn("{task.fields[text]}")
    bar = rich_progress.BarColumn(bar_width=None)
    return rich_progress.Progress(description, bar, text, console=console, transient=True)


def format_duration(seconds: float) -> str:
    """1:02:03, or 2:03 if less than an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
