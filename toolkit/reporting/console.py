"""Console output of a training run."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.reporting.event_log import EventValues
from toolkit.reporting.plain_text import Console, print_plain
from toolkit.reporting.progress import Progress, create_bar, format_duration

FORMATS = {  # name -> format and column width; other metrics go to the files only
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
BAR_METRICS = ("loss", "tokens_per_second", "updates_per_second")
LINE_SECONDS = 60.0  # between progress lines of a validation without a bar


class TrainingConsole:
    """A bar with loss, rate and time left, or lines; a line per validation and checkpoint.

    `advance` moves the bar between reports; it needs no metrics and so never waits for the device.
    """

    def __init__(
        self,
        progress: str = "auto",
        *,
        total_updates: int | None = None,
        console: Console | None = None,
    ) -> None:
        self.total = total_updates
        self.console = console or Console(
            stderr=True, force_terminal=True if progress == "bar" else None
        )
        draw = progress == "bar" or (progress == "auto" and self.console.is_terminal)
        self.bar = create_bar(self.console) if draw else None
        if self.bar:
            self.task, self.text = self.bar.add_task("", total=total_updates, text=""), ""
            self.bar.start()

    def advance(self, update: int) -> None:
        """Show the number of updates done."""
        if self.bar:
            of = f"/{self.total}" if self.total else ""
            self.bar.update(self.task, completed=update, text=f"{update}{of}  {self.text}")

    def progress(self, description: str, total: int, unit: str) -> Progress:
        """Progress within training, such as a validation: a second bar, or a line per minute."""
        return Progress(
            description,
            total,
            unit,
            console=self.console,
            parent=self.bar,
            draw=False,
            line_seconds=LINE_SECONDS,
        )

    def write(self, event: str, values: EventValues) -> None:
        if event == "train" and self.bar:
            metrics = [text.rstrip() for text in format_metrics(values, BAR_METRICS)]
            self.text = "  ".join([*metrics, self.time_left(values)])
            self.bar.update(self.task, description=f"epoch {values.get('epoch', '?')}")
            self.advance(int(values.get("update") or 0))
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
        parts += format_objectives(values)
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


def format_objectives(values: EventValues) -> list[str]:
    """`mlm 5.474  mpm accuracy 0.165`: the metrics of several objectives."""
    losses = [name for name in values if name.endswith("_loss")]
    accuracies = [name for name in values if name.endswith("_accuracy")]
    names = [*(losses if len(losses) > 1 else []), *accuracies]
    return [f"{name.removesuffix('_loss').replace('_', ' ')} {values[name]:.3f}" for name in names]
