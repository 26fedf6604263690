"""An update whose micro-batches do not fit into some rank's memory is made in smaller parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Protocol, runtime_checkable

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.random_hash import derive_seed
from toolkit.data.loading.loader import first_index_of_rank
from toolkit.tasks.batch import Batch
from toolkit.training.gradient import GradientAccumulator, Losses, MicroBatchPart
from toolkit.training.step import TrainingProgress

MAX_HALVINGS = 4
"""How often micro-batches are halved before training gives up."""


@runtime_checkable
class SplittableLoader(Protocol):
    """What gives a micro-batch of an epoch once more, in parts."""

    def split_micro_batch(self, epoch: int, micro_batch: int, count: int) -> list[Batch]: ...


class OomRetry:
    """The gradient of micro-batches; in halves, quarters, ... where a rank's memory asks for it.

    The normalizers are known before, so that the parts add up to the gradient of the whole, but
    for dropout, which is drawn anew for each part. All ranks take equally many parts.
    """

    def __init__(self, accumulator: GradientAccumulator, seed: int) -> None:
        self.accumulator, self.world, self.seed = accumulator, accumulator.world, seed
        self.loader: object = None
        """The epoch's data; micro-batches are halved only where it is Divisible."""
        self.part_count = 1
        """Into how many the micro-batches of the latest update had to be divided."""
        self.failures: list[str] = []
        """What did not fit on the way there, rank by rank."""

    def __call__(
        self,
        micro_batches: Sequence[Batch],
        weights: Mapping[str, float],
        progress: TrainingProgress,
    ) -> Losses:
        self.failures = []
        for halvings in range(MAX_HALVINGS + 1):
            self.part_count = 2**halvings
            pieces = self.split_micro_batches(micro_batches, progress)
            losses, failure = self.accumulator.try_accumulate(pieces, weights)
            failures = gather_failures(failure, self.accumulator)
            if not failures:
                return losses
            self.accumulator.discard()
            self.failures += failures
            if not isinstance(self.loader, SplittableLoader):
                break
        raise ToolkitError(
            f"a micro-batch must fit into memory, but {self.failures[0]} in update "
            f"{progress.update + 1}, nor did it in {self.part_count} parts. Lower --max-tokens or "
            f"--batch-size and raise --update-freq instead."
        )

    def split_micro_batches(
        self, micro_batches: Sequence[Batch], progress: TrainingProgress
    ) -> list[MicroBatchPart]:
        """Each micro-batch in as many parts as are asked for, with seeds of their own."""
        found: list[MicroBatchPart] = []
        rank, ranks = self.world.rank, self.world.size
        numbers = count(first_index_of_rank(progress.consumed, rank, ranks), ranks)
        for number, batch in zip(numbers, micro_batches, strict=False):
            seed = self.seed, progress.epoch, number
            if self.part_count == 1 or not isinstance(self.loader, SplittableLoader):
                found.append(MicroBatchPart(batch, derive_seed(*seed)))
                continue
            parts = self.loader.split_micro_batch(progress.epoch, number, self.part_count)
            found += [
                MicroBatchPart(it, derive_seed(*seed, self.part_count, i))
                for i, it in enumerate(parts)
            ]
        return found


def gather_failures(failure: str, accumulator: GradientAccumulator) -> list[str]:
    """The failures of all ranks; one small sum where there is none."""
    world = accumulator.world
    if world.size > 1 and not world.all_reduce(torch.tensor(float(bool(failure)))):
        return []
    texts = enumerate(world.all_gather(failure))
    return [f"{text} did not on rank {rank}" for rank, text in texts if text]
