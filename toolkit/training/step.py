"""What one update did: what the trainer tells its observers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from toolkit.optim.update import Update
from toolkit.tasks.batch import Batch


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """How far training has come; with the seed and the data it determines everything ahead."""

    update: int = 0
    """Updates taken."""
    epoch: int = 1
    """Pass over the data that the next update belongs to."""
    consumed: int = 0
    """Micro-batches of that pass that all ranks together have learned from."""

    @property
    def latest_epoch(self) -> int:
        """The pass that the last update belonged to."""
        return max(1, self.epoch - (self.consumed == 0))

    def advance(self, micro_batches: int, epoch_micro_batches: int) -> TrainingProgress:
        """The place one update further on, in an epoch of so many micro-batches."""
        consumed = self.consumed + micro_batches
        if consumed < epoch_micro_batches:
            return TrainingProgress(update=self.update + 1, epoch=self.epoch, consumed=consumed)
        return TrainingProgress(update=self.update + 1, epoch=self.epoch + 1)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One update. Tensors stay on the device; an observer reads them when it needs numbers."""

    progress: TrainingProgress
    """Where training stands after it."""
    epoch: int
    """The pass over the data that it belonged to."""
    start: int = 0
    """Micro-batches of that pass that lay before it."""
    losses: dict[str, Tensor]
    """Objective -> summed loss over this rank's micro-batches."""
    weights: dict[str, float]
    """Objective -> number of places in those sums over all ranks."""
    tokens: int
    """Tokens in this rank's micro-batches."""
    learning_rate: float
    outcome: Update
    micro_batches: Sequence[Batch]
    oom_failures: Sequence[str] = ()
    """What did not fit into the memory of some rank, so that it was done in parts."""

    @property
    def update(self) -> int:
        return self.progress.update

    @property
    def ends_epoch(self) -> bool:
        return self.progress.epoch > self.epoch


Observer = Callable[[Step], object]
Metrics = dict[str, float | int]
"""Name of a figure -> its value."""
State = dict[str, Any]
"""What an observer or the trainer remembers in a checkpoint: plain numbers, texts, lists, dicts."""
