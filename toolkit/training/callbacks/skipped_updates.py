"""Reports skipped updates, and updates made in parts, together with their examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

import torch

from toolkit.common.enumeration import join_first
from toolkit.data.loading.loader import first_index_of_rank
from toolkit.reporting.runs import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

READ_INTERVAL = 10
"""Updates between two reads from a GPU; a CPU is read after each update."""
MAX_NUMBERS = 20
"""Micro-batches or examples in a message; the event has all of them."""


class SkippedUpdateReporter:
    """Writes an event `skipped_update` or `split_update` with the micro-batches and examples."""

    def __init__(
        self,
        trainer: Trainer,
        sink: Sink | None,
        example_ids: Callable[[int, int], Iterable[int]],
    ) -> None:
        """`example_ids` maps epoch and index of a micro-batch to its examples."""
        self.trainer, self.world, self.sink = trainer, trainer.world, sink
        self.example_ids = example_ids
        self.pending: list[Step] = []

    def __call__(self, step: Step) -> None:
        if step.oom_failures:
            text = f"made in parts: {'; '.join(step.oom_failures)}"
            self.write_event("split_update", step, "out of memory", text, self.all_ranks)
        self.pending.append(step)
        # before the next epoch, which may have other shards
        if step.ends_epoch or self.world.device.type == "cpu" or step.update % READ_INTERVAL == 0:
            self.report_pending()

    def report_pending(self) -> None:
        """Report the pending updates that were skipped; all ranks must call it."""
        if not self.pending:
            return
        self.trainer.wait_for_device()
        flags = torch.stack([step.outcome.skipped for step in self.pending]).tolist()
        for step, skipped in zip(self.pending, flags, strict=True):
            if skipped:
                self.report_skipped(step)
        self.pending = []

    def report_skipped(self, step: Step) -> None:
        """Report why all ranks have skipped an update, and on which ranks the reason lies."""
        finite = all(bool(loss.isfinite()) for loss in step.losses.values())
        texts = self.world.all_gather(json.dumps(finite))
        ranks = [rank for rank, text in enumerate(texts) if text == "false"]
        if step.outcome.norm.isfinite():
            reason, text = "spike", f"skipped as a spike of norm {float(step.outcome.norm):.3g}"
        elif ranks:
            where = f" on rank {', '.join(map(str, ranks))}" if self.world.size > 1 else ""
            reason, text = "loss", f"skipped: its loss is not finite{where}"
        elif self.trainer.precision.loss_scale:
            return  # fp16 overflows now and then; its loss is rescaled
        else:
            reason, text = "gradient", "skipped: its gradient is not finite"
        affected = ranks if reason == "loss" else self.all_ranks
        self.write_event("skipped_update", step, reason, text, affected)

    @property
    def all_ranks(self) -> Sequence[int]:
        return range(self.world.size)

    def write_event(
        self, event: str, step: Step, reason: str, text: str, ranks: Sequence[int]
    ) -> None:
        """Write an event with the examples of these ranks, which the main rank computes."""
        if not self.sink:
            return
        size = self.world.size
        starts = [first_index_of_rank(step.start, rank, size) for rank in ranks]
        count = range(len(step.micro_batches))
        indices = sorted(start + number * size for number in count for start in starts)
        examples = [int(it) for index in indices for it in self.example_ids(step.epoch, index)]
        values: dict[str, EventValue] = {
            "update": step.update,
            "epoch": step.epoch,
            "reason": reason,
            "micro_batches": " ".join(map(str, indices)),
            "examples": " ".join(map(str, examples)),
            "text": f"{text}; micro-batches {join_first(indices, MAX_NUMBERS, ' ')}, examples "
            f"{join_first(examples, MAX_NUMBERS, ' ')}",
        }
        self.sink.write(event, values)
