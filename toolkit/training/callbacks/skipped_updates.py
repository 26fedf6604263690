"""Tells of updates that were skipped or made in parts: why, and of which examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from toolkit.data.loading.loader import first_place
from toolkit.reporting.event_log import Value
from toolkit.reporting.sinks import Sink
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

READ_EVERY = 10
"""Updates between two looks at a GPU; a CPU is looked at after each."""
SHOWN = 20


class Skips:
    """One "trouble" event for each such update, with its micro-batches and their examples."""

    def __init__(
        self, trainer: Trainer, sink: Sink | None, ids: Callable[[int, int], Sequence[int] | Any]
    ) -> None:
        self.trainer, self.world, self.sink, self.ids = trainer, trainer.world, sink, ids
        self.unread: list[Step] = []

    def __call__(self, step: Step) -> None:
        if step.unfit:
            text = f"made in parts: {'; '.join(step.unfit)}"
            self.tell(step, "out of memory", text, range(self.world.size))
        self.unread.append(step)
        # Before the next epoch, whose data may lie in other shards.
        if step.ends_epoch or self.world.device.type == "cpu" or step.update % READ_EVERY == 0:
            self.read()

    def read(self) -> None:
        """Tell of those that were skipped since the last look, if any."""
        if not self.unread:
            return
        flags = torch.stack([step.outcome.skipped for step in self.unread]).tolist()
        for step, skipped in zip(self.unread, flags, strict=True):
            if skipped:
                self.explain(step)
        self.unread = []

    def explain(self, step: Step) -> None:
        """All ranks have skipped it, and say what was wrong with their losses."""
        finite = all(bool(loss.isfinite()) for loss in step.losses.values())
        ranks = [r for r, it in enumerate(self.world.gather(json.dumps(finite))) if it == "false"]
        if step.outcome.norm.isfinite():
            norm = float(step.outcome.norm)
            self.tell(step, "spike", f"skipped as a spike of norm {norm:.3g}", self.everyone)
        elif ranks:
            where = f" on rank {', '.join(map(str, ranks))}" if self.world.size > 1 else ""
            self.tell(step, "loss", f"skipped: its loss is not finite{where}", ranks)
        elif not self.trainer.precision.loss_scale:  # fp16 overflows now and then; it is scaled
            self.tell(step, "gradient", "skipped: its gradient is not finite", self.everyone)

    @property
    def everyone(self) -> Sequence[int]:
        return range(self.world.size)

    def tell(self, step: Step, reason: str, text: str, ranks: Sequence[int]) -> None:
        """The first rank knows of all ranks which examples they had."""
        if not self.sink:
            return
        count, size = range(len(step.micro_batches)), self.world.size
        firsts = [first_place(step.begin, rank, size) for rank in ranks]
        numbers = sorted(first + i * size for i in count for first in firsts)
        examples = [int(it) for number in numbers for it in self.ids(step.epoch, number)]
        values: dict[str, Value] = {
            "update": step.update,
            "epoch": step.epoch,
            "reason": reason,
            "micro_batches": spelled(numbers),
            "examples": spelled(examples),
            "text": f"{text}; micro-batches {shown(numbers)}, examples {shown(examples)}",
        }
        self.sink.write("trouble", values)


def spelled(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def shown(numbers: Sequence[int]) -> str:
    """The first few, for the eye."""
    rest = len(numbers) - SHOWN
    return spelled(numbers[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
