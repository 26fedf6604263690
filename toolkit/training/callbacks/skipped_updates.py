"""Reports skipped updates, and updates made in parts, together with their examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import torch

from toolkit.data.loading.loader import first_index_of_rank
from toolkit.reporting.event_log import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

READ_INTERVAL = 10
"""Updates between two reads from a GPU; a CPU is read after each update."""
MAX_SHOWN = 20


class SkippedUpdateReporter:
    """Writes an event `skipped_update` or `split_update` with the micro-batches and examples."""

    def __init__(
        self, trainer: Trainer, sink: Sink | None, ids: Callable[[int, int], Iterable[int]]
    ) -> None:
        self.trainer, self.world, self.sink, self.ids = trainer, trainer.world, sink, ids
        self.pending: list[Step] = []

    def __call__(self, step: Step) -> None:
        if step.oom_failures:
            text = f"made in parts: {'; '.join(step.oom_failures)}"
            self.write_event("split_update", step, "out of memory", text, self.all_ranks)
        self.pending.append(step)
        # Before the next epoch, whose data may lie in other shards.
        if step.ends_epoch or self.world.device.type == "cpu" or step.update % READ_INTERVAL == 0:
            self.report_pending()

    def report_pending(self) -> None:
        """Report the pending updates that were skipped; all ranks must call it."""
        if not self.pending:
            return
        flags = torch.stack([step.outcome.skipped for step in self.pending]).tolist()
        for step, skipped in zip(self.pending, flags, strict=True):
            if skipped:
                self.report_skipped(step)
        self.pending = []

    def report_skipped(self, step: Step) -> None:
        """Find out why all ranks have skipped an update, and on which ranks."""
        finite = all(bool(loss.isfinite()) for loss in step.losses.values())
        answers = self.world.all_gather(json.dumps(finite))
        ranks = [rank for rank, answer in enumerate(answers) if answer == "false"]
        if step.outcome.norm.isfinite():
            reason, text = "spike", f"skipped as a spike of norm {float(step.outcome.norm):.3g}"
        elif ranks:
            where = f" on rank {', '.join(map(str, ranks))}" if self.world.size > 1 else ""
            reason, text = "loss", f"skipped: its loss is not finite{where}"
        elif self.trainer.precision.loss_scale:
            return  # fp16 overflows now and then; its loss is rescaled
        else:
            reason, text = "gradient", "skipped: its gradient is not finite"
        of = ranks if reason == "loss" else self.all_ranks
        self.write_event("skipped_update", step, reason, text, of)

    @property
    def all_ranks(self) -> Sequence[int]:
        return range(self.world.size)

    def write_event(
        self, event: str, step: Step, reason: str, text: str, ranks: Sequence[int]
    ) -> None:
        """Write an event with the examples of these ranks, which the main rank can compute."""
        if not self.sink:
            return
        size = self.world.size
        starts = [first_index_of_rank(step.start, rank, size) for rank in ranks]
        count = range(len(step.micro_batches))
        indices = sorted(start + number * size for number in count for start in starts)
        examples = [int(it) for index in indices for it in self.ids(step.epoch, index)]
        values: dict[str, EventValue] = {
            "update": step.update,
            "epoch": step.epoch,
            "reason": reason,
            "micro_batches": join_numbers(indices),
            "examples": join_numbers(examples),
            "text": f"{text}; micro-batches {abbreviate(indices)}, examples {abbreviate(examples)}",
        }
        self.sink.write(event, values)


def join_numbers(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def abbreviate(numbers: Sequence[int]) -> str:
    """The first numbers, and how many more there are."""
    rest = len(numbers) - MAX_SHOWN
    return join_numbers(numbers[:MAX_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
