"""Consoles of rich: plain text, progress bars, and the output of a command or a training run."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import TextIOBase
from pathlib import Path
from typing import Any, TextIO

from rich import console as rich_console, progress as rich_progress

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import STDOUT, open_output
from toolkit.reporting.runs import EventValues


def in_notebook() -> bool:
    """Whether standard error is the output of a notebook's cell."""
    return type(sys.stderr).__module__ == "ipykernel.iostream"


class Console(rich_console.Console):
    """A console that leaves the error about a closed pipe to its caller, as `print` does.

    FORCE_COLOR, which Jupyter and continuous integration set, chooses colors alone: bars, and
    tables that are as wide as the screen, are for screens (`is_interactive`).
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=False, **options)
        self.is_interactive &= bool(options.get("force_terminal") or self.file.isatty())

    def on_broken_pipe(self) -> None:
        raise


def print_plain(console: Console, text: str, end: str = "\n") -> None:
    """Print text unchanged: no markup, emoji codes, colors or wrapping."""
    console.print(text, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True)


LINE_SECONDS, RUN_LINE_SECONDS = 5.0, 10.0


def longest_silence(seconds: float, least: float) -> float:
    """Seconds without a line that bring about one: 1 % of the time so far, so that days of work
    write hundreds of lines and not thousands, but at first `least`.
    """
    return max(least, seconds / 100)


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
        draw = draw and has_bars(self.console) and not quiet
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
        elif now - self.printed_at >= longest_silence(now - self.started_at, self.line_seconds):
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


class NotebookBar(rich_progress.Progress):
    """A bar in the output of a notebook's cell, replaced there; rich's own needs ipywidgets."""

    handle: Any = None
    drawn_at = 0.0

    def start(self) -> None:
        from IPython.display import display

        self.handle = display(self, display_id=True)

    def update(self, *task: Any, **fields: Any) -> None:
        super().update(*task, **fields)
        if time.monotonic() - self.drawn_at > 0.5:
            self.refresh()

    def refresh(self) -> None:
        self.drawn_at = time.monotonic()
        if self.handle:
            self.handle.update(self)

    def stop(self) -> None:
        self.refresh()


def has_bars(console: Console) -> bool:
    """Whether bars can be drawn: on a screen, and in a notebook's cell."""
    return console.is_interactive or (console.stderr and in_notebook())


def create_bar(console: Console) -> rich_progress.Progress:
    """A description, a bar that fills the line, and a text; a screen shows it until it stops."""
    description = rich_progress.TextColumn("{task.description}")
    text = rich_progress.TextColumn("{task.fields[text]}")
    bar = rich_progress.BarColumn(bar_width=None)
    kind = rich_progress.Progress if console.is_interactive else NotebookBar
    return kind(description, bar, text, console=console, transient=True)


@contextmanager
def heartbeat(text: str) -> Iterator[None]:
    """Print a line every few seconds for work whose steps cannot be counted."""
    ended, started, console = threading.Event(), time.monotonic(), Console(stderr=True)

    def beat() -> None:
        while not ended.wait(LINE_SECONDS):
            print_plain(console, f"{text}: {format_duration(time.monotonic() - started)}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def format_duration(seconds: float) -> str:
    """1:02:03, or 2:03 if less than an hour."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


FORMATS = {  # name -> format and column width; other metrics go to the files only
    "words": ("{:,} words", 17),
    "loss": ("loss {:.3f}", 11),
    "ppl": ("ppl {:.5g}", 11),
    "accuracy": ("accuracy {:.3f}", 14),
    "exact_match": ("exact match {:.3f}", 17),
    "f1": ("f1 {:.3f}", 8),
    "bleu": ("bleu {:.2f}", 10),
    "chrf": ("chrf {:.2f}", 10),
    "gradient_norm": ("norm {:.2f}", 10),
    "lr": ("lr {:.2e}", 11),
    "tokens_per_second": ("{:,.0f} tokens/s", 18),
    "updates_per_second": ("{:.2f} updates/s", 14),
}
PRINTED_EVENTS = ("train", "valid", "save", "save_failed", "skipped_update", "split_update")
"""Events that are printed; those of callbacks are if they have a text."""
BAR_METRICS = ("words", "loss", "tokens_per_second", "updates_per_second")


class TrainingConsole:
    """A bar with loss, rate and time left, or lines; a line per validation and checkpoint.

    `advance` moves the bar between reports, or ends a long silence with a line; it needs no metrics
    and so never waits for the device. The last report becomes a line at the end, when the bar is
    gone.
    """

    def __init__(
        self,
        progress: str = "auto",
        *,
        total_updates: int | None = None,
        console: Console | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.total, self.now = total_updates, now
        self.started_at = self.printed_at = now()
        self.printed_update: int | None = None
        self.console = console or Console(
            stderr=True, force_terminal=True if progress == "bar" else None
        )
        draw = progress == "bar" or (progress == "auto" and has_bars(self.console))
        self.latest: EventValues = {}
        self.bar = create_bar(self.console) if draw else None
        if self.bar:
            self.task, self.text = self.bar.add_task("", total=total_updates, text=""), ""
            self.bar.start()

    def advance(self, update: int) -> None:
        """Show the number of updates done."""
        seconds = self.now() - self.printed_at
        if self.bar:
            of = f"/{self.total}" if self.total else ""
            self.bar.update(self.task, completed=update, text=f"{update}{of}  {self.text}")
        elif self.printed_update is not None and seconds >= self.line_seconds:
            rate = (update - self.printed_update) / seconds
            self.write("train", {"update": update, "updates_per_second": rate})

    @property
    def line_seconds(self) -> float:
        """Longest time without a line."""
        return longest_silence(self.now() - self.started_at, RUN_LINE_SECONDS)

    def progress(self, description: str, total: int, unit: str) -> Progress:
        """Progress within training, such as a validation: a second bar, or a few lines."""
        return Progress(
            description,
            total,
            unit,
            console=self.console,
            parent=self.bar,
            draw=False,
            line_seconds=self.line_seconds,
        )

    def write(self, event: str, values: EventValues) -> None:
        if isinstance(update := values.get("update"), int):
            self.printed_at, self.printed_update = self.now(), update
        if event == "train" and self.bar:
            self.latest = values
            metrics = [text.rstrip() for text in format_metrics(values, BAR_METRICS)]
            self.text = "  ".join([*metrics, self.time_left(values)])
            self.bar.update(self.task, description=f"epoch {values.get('epoch', '?')}")
            self.advance(int(values.get("update") or 0))
        elif event == "end" and self.latest:
            print_plain(self.console, self.format_line("train", self.latest))
        elif event in PRINTED_EVENTS or values.get("text"):
            print_plain(self.console, self.format_line(event, values))

    def close(self) -> None:
        if self.bar:
            self.bar.stop()

    def format_line(self, event: str, values: EventValues) -> str:
        """`train  update   100/1000  epoch   1  loss 5.321  ...`"""
        width = len(str(self.total or 99999))
        of = f"/{self.total}" if self.total else ""
        parts = [f"{event:<5}", f"update {values.get('update', 0):>{width}}{of}"]
        if "epoch" in values:
            parts.append(f"epoch {values['epoch']:>3}")
        parts += [str(values[name]) for name in ("subset", "path", "text") if values.get(name)]
        losses = [name for name in values if name.endswith("_loss")]
        accuracies = [name for name in values if name.endswith("_accuracy")]
        parts += [  # `mlm 5.474  mpm accuracy 0.165`
            f"{name.removesuffix('_loss').replace('_', ' ')} {values[name]:.3f}"
            for name in (losses if len(losses) > 1 else []) + accuracies
        ]
        parts += format_metrics(values)
        if event == "train":
            parts.append(self.time_left(values))
        return "  ".join(parts).rstrip()

    def time_left(self, values: EventValues) -> str:
        """Time for the remaining updates at the latest rate."""
        rate, update = values.get("updates_per_second"), values.get("update")
        if not self.total or not isinstance(update, int) or not isinstance(rate, int | float):
            return ""
        return f"{format_duration(max(self.total - update, 0) / rate)} left" if rate > 0 else ""


def format_metrics(values: EventValues, names: Iterable[str] = FORMATS) -> list[str]:
    """The named metrics that the event has, padded to their columns."""
    return [
        FORMATS[name][0].format(values[name]).ljust(FORMATS[name][1])
        for name in names
        if isinstance(values.get(name), int | float)
    ]


OUTPUT_START = re.compile(rb'\{"event": "\w+"(?!, "update": )')
"""Start of a file that may be overwritten. A run's log, which starts with an update, may not."""


TextStream = TextIO | TextIOBase
"""A stream that `print` can write to: the second are streams in memory and of notebooks."""


class Output:
    """Text and JSON lines (`--json FILE`); with `-`, JSON goes to stdout and text to stderr.

    The file is opened at once, so that an unwritable path fails before the work.
    """

    def __init__(self, target: str | None) -> None:
        self.to_stdout = target in STDOUT
        self.file: TextIO | None = None
        self._stack = ExitStack()
        if target is not None:
            path = Path(target)
            if not self.to_stdout and path.is_file():
                with path.open("rb") as file:
                    start = file.read(100)
                if start and not OUTPUT_START.match(start):  # a mistyped name costs no corpus
                    raise ToolkitError(
                        f"--json must name a new file or one written by --json, but {target} "
                        f"holds something else. Choose another name."
                    )
            self.file = self._stack.enter_context(open_output(target))

    @property
    def text_stream(self) -> TextStream:
        """The stream for text."""
        return sys.stderr if self.to_stdout else sys.stdout

    @property
    def console(self) -> Console:
        return Console(stderr=self.to_stdout)

    def print_line(self, text: str) -> None:
        print_plain(self.console, text)

    def write(self, event: str, values: Mapping[str, object]) -> None:
        """Write one JSON line with the type of the event; numbers keep full precision."""
        if self.file:
            self.file.write(json_files.dumps({"event": event, **values}) + "\n")
            self.file.flush()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
