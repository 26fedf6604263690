"""Retry of an update in smaller parts after running out of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import torch

from toolkit.common.arrays import derive_seed
from toolkit.common.errors import ToolkitError
from toolkit.data.loading.loader import first_index_of_rank
from toolkit.tasks.batch import Batch
from toolkit.training.gradient import GradientAccumulator, Losses, MicroBatchPart
from toolkit.training.step import TrainingLoader, TrainingProgress

MAX_HALVINGS = 4
"""Maximum number of halvings of the micro-batches before training ends."""


class OomRetry:
    """The gradient of micro-batches, in halves, quarters, ... if some rank runs out of memory.

    The normalizers are known in advance, so the gradients of the parts sum to that of the whole,
    except for dropout, which is drawn for each part. All ranks split into equally many parts.
    """

    def __init__(self, accumulator: GradientAccumulator, seed: int) -> None:
        self.accumulator, self.world, self.seed = accumulator, accumulator.world, seed
        self.loader: TrainingLoader | None = None
        """The epoch's data; without it, micro-batches are not split."""
        self.part_count = 1
        """Parts into which each micro-batch of the latest update was split."""
        self.failures: list[str] = []
        """The attempts of the latest update that did not fit, by rank."""

    def __call__(
        self,
        micro_batches: Sequence[Batch],
        weights: Mapping[str, float],
        progress: TrainingProgress,
    ) -> Losses:
        self.failures = []
        for halvings in range(MAX_HALVINGS + 1):
            self.part_count = 2**halvings
            parts = self.split_micro_batches(micro_batches, progress)
            losses, failure = self.accumulator.try_accumulate(parts, weights)
            failures = gather_failures(failure, self.accumulator)
            if not failures:
                return losses
            self.accumulator.discard()
            self.failures += failures
            if self.loader is None:
                break
        raise ToolkitError(
            f"a micro-batch must fit into memory, but {self.failures[0]} in update "
            f"{progress.update + 1}, nor did it in {self.part_count} parts. Lower --max-tokens or "
            f"--batch-size and raise --update-freq instead."
        )

    def split_micro_batches(
        self, micro_batches: Sequence[Batch], progress: TrainingProgress
    ) -> list[MicroBatchPart]:
        """The parts of this rank's micro-batches, each with a separate seed."""
        parts: list[MicroBatchPart] = []
        rank, ranks = self.world.rank, self.world.size
        indices = count(first_index_of_rank(progress.consumed, rank, ranks), ranks)
        for index, batch in zip(indices, micro_batches, strict=False):
            seed = self.seed, progress.epoch, index
            if self.part_count == 1 or self.loader is None:
                parts.append(MicroBatchPart(batch, derive_seed(*seed)))
                continue
            batches = self.loader.split_micro_batch(progress.epoch, index, self.part_count)
            parts += [
                MicroBatchPart(part, derive_seed(*seed, self.part_count, number))
                for number, part in enumerate(batches)
            ]
        return parts


def gather_failures(failure: str, accumulator: GradientAccumulator) -> list[str]:
    """The failures of all ranks; costs one small all-reduce if there are none."""
    world = accumulator.world
    if world.size > 1 and not world.all_reduce(torch.tensor(float(bool(failure)))):
        return []
    texts = enumerate(world.all_gather(failure))
    return [f"{text} did not on rank {rank}" for rank, text in texts if text]
