"""Tells of updates that were skipped or made in parts: why, and of which examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from toolkit.data.loading.loader import first_index_of_rank
from toolkit.reporting.event_log import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

READ_INTERVAL = 10
"""Updates between two looks at a GPU; a CPU is looked at after each."""
MAX_SHOWN = 20


class SkippedUpdateReporter:
    """One "trouble" event for each such update, with its micro-batches and their examples."""

    def __init__(
        self, trainer: Trainer, sink: Sink | None, ids: Callable[[int, int], Sequence[int] | Any]
    ) -> None:
        self.trainer, self.world, self.sink, self.ids = trainer, trainer.world, sink, ids
        self.pending: list[Step] = []

    def __call__(self, step: Step) -> None:
        if step.oom_failures:
            text = f"made in parts: {'; '.join(step.oom_failures)}"
            self.write_event(step, "out of memory", text, range(self.world.size))
        self.pending.append(step)
        # Before the next epoch, whose data may lie in other shards.
        if step.ends_epoch or self.world.device.type == "cpu" or step.update % READ_INTERVAL == 0:
            self.report_pending()

    def report_pending(self) -> None:
        """Tell of those that were skipped since the last look, if any."""
        if not self.pending:
            return
        flags = torch.stack([step.outcome.skipped for step in self.pending]).tolist()
        for step, skipped in zip(self.pending, flags, strict=True):
            if skipped:
                self.report_skipped(step)
        self.pending = []

    def report_skipped(self, step: Step) -> None:
        """All ranks have skipped it, and say what was wrong with their losses."""
        finite = all(bool(loss.isfinite()) for loss in step.losses.values())
        ranks = [
            r for r, it in enumerate(self.world.all_gather(json.dumps(finite))) if it == "false"
        ]
        if step.outcome.norm.isfinite():
            norm = float(step.outcome.norm)
            self.write_event(
                step, "spike", f"skipped as a spike of norm {norm:.3g}", self.all_ranks
            )
        elif ranks:
            where = f" on rank {', '.join(map(str, ranks))}" if self.world.size > 1 else ""
            self.write_event(step, "loss", f"skipped: its loss is not finite{where}", ranks)
        elif not self.trainer.precision.loss_scale:  # fp16 overflows now and then; it is scaled
            self.write_event(
                step, "gradient", "skipped: its gradient is not finite", self.all_ranks
            )

    @property
    def all_ranks(self) -> Sequence[int]:
        return range(self.world.size)

    def write_event(self, step: Step, reason: str, text: str, ranks: Sequence[int]) -> None:
        """The first rank knows of all ranks which examples they had."""
        if not self.sink:
            return
        count, size = range(len(step.micro_batches)), self.world.size
        firsts = [first_index_of_rank(step.start, rank, size) for rank in ranks]
        numbers = sorted(first + i * size for i in count for first in firsts)
        examples = [int(it) for number in numbers for it in self.ids(step.epoch, number)]
        values: dict[str, EventValue] = {
            "update": step.update,
            "epoch": step.epoch,
            "reason": reason,
            "micro_batches": join_numbers(numbers),
            "examples": join_numbers(examples),
            "text": f"{text}; micro-batches {abbreviate(numbers)}, examples {abbreviate(examples)}",
        }
        self.sink.write("trouble", values)


def join_numbers(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def abbreviate(numbers: Sequence[int]) -> str:
    """The first few, for the eye."""
    rest = len(numbers) - MAX_SHOWN
    return join_numbers(numbers[:MAX_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
