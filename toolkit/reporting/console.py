"""Console output of a training run."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from toolkit.reporting.event_log import EventValue, EventValues
from toolkit.reporting.progress import Progress, create_bar, format_duration

FORMATS = {  # name -> format; other metrics go to the files only
    "loss": "loss {:.3f}",
    "ppl": "ppl {:.1f}",
    "accuracy": "accuracy {:.3f}",
    "exact_match": "exact match {:.3f}",
    "f1": "f1 {:.3f}",
    "bleu": "bleu {:.2f}",
    "chrf": "chrf {:.2f}",
    "gradient_norm": "norm {:.2f}",
    "lr": "lr {:.2e}",
    "tokens_per_second": "{:,.0f} tokens/s",
    "updates_per_second": "{:.2f} updates/s",
}
WIDTHS = {  # of the columns, so that lines align
    "loss": 11,
    "ppl": 11,
    "accuracy": 14,
    "exact_match": 17,
    "f1": 8,
    "bleu": 10,
    "chrf": 10,
    "gradient_norm": 10,
    "lr": 11,
    "tokens_per_second": 18,
    "updates_per_second": 14,
}
BAR_METRICS = ("loss", "tokens_per_second", "updates_per_second")
LINE_SECONDS = 60.0  # between progress lines of a validation in a log


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
            shown = [
                FORMATS[name].format(v) for name, v in shown_metrics(values) if name in BAR_METRICS
            ]
            self.text = "  ".join([*shown, self.time_left(values)])
            self.bar.update(self.task, description=f"epoch {values.get('epoch', '?')}")
            self.advance(int(values.get("update") or 0))
        elif event != "end":
            self.console.print(
                self.format_line(event, values), markup=False, highlight=False, soft_wrap=True
            )

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
        parts += [FORMATS[name].format(v).ljust(WIDTHS[name]) for name, v in shown_metrics(values)]
        if event == "train":
            parts.append(self.time_left(values))
        return "  ".join(parts).rstrip()

    def time_left(self, values: EventValues) -> str:
        """Time for the remaining updates at the latest rate."""
        rate, update = values.get("updates_per_second"), values.get("update")
        if not self.total or not isinstance(update, int) or not isinstance(rate, int | float):
            return ""
        return f"{format_duration(max(self.total - update, 0) / rate)} left" if rate > 0 else ""


def shown_metrics(values: EventValues) -> Iterator[tuple[str, EventValue]]:
    """Name and value of the metrics to show, in the order of FORMATS."""
    for name in FORMATS:
        if isinstance(values.get(name), int | float):
            yield name, values[name]


def format_objectives(values: EventValues) -> list[str]:
    """`mlm 5.474  mpm accuracy 0.165`: the metrics of several objectives."""
    losses = [name for name in values if name.endswith("_loss")]
    accuracies = [name for name in values if name.endswith("_accuracy")]
    known = [*(losses if len(losses) > 1 else []), *accuracies]
    return [f"{name.removesuffix('_loss').replace('_', ' ')} {values[name]:.3f}" for name in known]
