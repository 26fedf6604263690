"""How far a long piece of work is: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, TextColumn

LINE_SECONDS = 5.0


class Work:
    """Share, rate and time left, on standard error; what takes under five seconds says nothing.

    Without a total, how much is done and the rate; `quiet` says nothing at all. Beside a bar that
    is drawn already it is one more line of it.
    """

    def __init__(
        self,
        what: str,
        total: int | None,
        unit: str,
        *,
        quiet: bool = False,
        terminal: Terminal | None = None,
        beside: Progress | None = None,
        draws: bool = True,
        line_seconds: float = LINE_SECONDS,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.what, self.total, self.unit, self.now = what, total, unit, now
        self.terminal = terminal or Terminal(stderr=True, quiet=quiet)
        self.done, self.begun, self.line_seconds = 0, now(), line_seconds
        self.told = self.begun
        self.beside = beside
        draws = draws and self.terminal.is_terminal and not quiet
        self.bar = beside or (create_bar(self.terminal) if draws else None)

    def __enter__(self) -> Work:
        if self.bar:
            begun = self.text(self.begun)
            self.shown = self.bar.add_task(self.what, total=self.total, text=begun)
            if not self.beside:
                self.bar.start()
        return self

    def advance(self, count: int) -> None:
        self.done += count
        now = self.now()
        if self.bar:
            self.bar.update(self.shown, completed=self.done, text=self.text(now))
        elif now - self.told >= self.line_seconds:
            self.told = now
            self.terminal.print(
                f"{self.what}: {self.text(now)}", markup=False, highlight=False, soft_wrap=True
            )

    def text(self, now: float) -> str:
        """`3,200 of 9,000 examples, 640 a second, 0:09 left`"""
        rate = self.done / max(now - self.begun, 1e-9)
        of = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{self.done:,}{of} {self.unit}"]
        if self.done:
            parts.append(f"{rate:,.0f} a second")
            if self.total is not None:
                parts.append(f"{format_duration(max(self.total - self.done, 0) / rate)} left")
        return ", ".join(parts)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.beside:
            self.beside.remove_task(self.shown)
        elif self.bar:
            self.bar.stop()


def create_bar(terminal: Terminal) -> Progress:
    """A description, a bar as wide as there is room, a text; gone when it stops."""
    texts = TextColumn("{task.description}"), TextColumn("{task.fields[text]}")
    bar = BarColumn(bar_width=None)
    return Progress(texts[0], bar, texts[1], console=terminal, transient=True)


def format_duration(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03, or 2:03 below an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
