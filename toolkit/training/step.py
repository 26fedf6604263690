"""Training progress, the record of an update, and the interfaces of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from toolkit.common.arrays import IntArray
from toolkit.common.json_files import Count, JsonObject, PositiveCount
from toolkit.optim.update import Update
from toolkit.tasks.examples import Batch


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """Progress of training; together with seed and data it determines all later updates."""

    update: Count = 0
    """Updates taken."""
    epoch: PositiveCount = 1
    """Epoch that the next update belongs to, from 1."""
    consumed: Count = 0
    """Micro-batches of that epoch that all ranks together have consumed."""
    words: Count | None = None
    """Words seen, as `wc -w` counts them in the text; None if they are not counted."""

    @property
    def latest_epoch(self) -> int:
        """Epoch that the latest update belonged to."""
        return max(1, self.epoch - (self.consumed == 0))

    @property
    def words_seen(self) -> int | None:
        """None if some updates were made without a count."""
        return self.words if self.update else 0

    @property
    def clock(self) -> dict[str, int]:
        """The words for a record of an event; empty if they are not counted."""
        return {} if self.words is None else {"words": self.words}

    def advance(
        self, micro_batches: int, epoch_micro_batches: int, epoch_words: IntArray | None = None
    ) -> TrainingProgress:
        """Progress after one more update, in an epoch of `epoch_micro_batches`; `epoch_words` are
        the words before each of them and at the end.
        """
        consumed, words = self.consumed + micro_batches, None
        if epoch_words is not None and self.words_seen is not None:
            seen = epoch_words[min(consumed, epoch_micro_batches)] - epoch_words[self.consumed]
            words = self.words_seen + int(seen)
        epoch = self.epoch
        if consumed >= epoch_micro_batches:
            epoch, consumed = epoch + 1, 0
        return TrainingProgress(update=self.update + 1, epoch=epoch, consumed=consumed, words=words)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One update. Tensors stay on the device; a callback reads them when it needs numbers."""

    progress: TrainingProgress
    """Progress after this update."""
    epoch: int
    """Epoch that it belonged to."""
    start: int = 0
    """Micro-batches of that epoch before this update."""
    words_before: int | None = None
    """Words seen before this update; None if they are not counted."""
    losses: dict[str, Tensor]
    """Objective -> summed loss over this rank's micro-batches."""
    weights: dict[str, float]
    """Objective -> number of predictions in its loss, over all ranks."""
    tokens: int
    """Tokens in this rank's micro-batches."""
    learning_rate: float
    outcome: Update
    micro_batches: Sequence[Batch]
    oom_failures: Sequence[str] = ()
    """Attempts that ran out of memory, after which the micro-batches were split."""

    @property
    def update(self) -> int:
        """Number of updates taken, this one included."""
        return self.progress.update

    @property
    def ends_epoch(self) -> bool:
        """Whether it is the last update of its epoch."""
        return self.progress.epoch > self.epoch


Callback = Callable[[Step], object]
"""Called after each update."""
Metrics = dict[str, float | int]
"""Name of a metric -> its value."""
State = JsonObject
"""State in a checkpoint."""


@runtime_checkable
class GradientObserver(Protocol):
    """A callback that is also called before the optimizer's step of each update."""

    def on_gradients(self, scale: Tensor | float) -> None:
        """Read `p.grad`: the mean over ranks, not clipped yet, times `scale`, that of fp16, else 1.
        It is None in an update without predictions.
        """


@runtime_checkable
class OptimizedTask(Protocol):
    """A task that takes part in the optimizer's steps."""

    def on_optimizer(self, optimizer: Optimizer) -> None:
        """Called with the optimizer of a run, to register hooks of its steps."""


@runtime_checkable
class AdaptiveTask(Protocol):
    """A task that what it predicted changes."""

    def on_update(self, update: int, sum_over_ranks: Callable[[Tensor], Tensor]) -> None:
        """Called after each update, on all ranks; sums are of tensors on the host."""

    def on_discard(self) -> None:
        """Called where the predictions since the latest update end in none."""


@runtime_checkable
class ValidationObserver(Protocol):
    """A callback that also receives the metrics of each validation."""

    def on_validation(self, update: int, metrics: Mapping[str, Metrics]) -> None:
        """`metrics` are those of each split."""


@runtime_checkable
class Stateful(Protocol):
    """A callback or another object whose state is part of a checkpoint."""

    def state(self) -> State:
        """The state to store in a checkpoint."""

    def restore(self, state: State) -> None:
        """Continue from a stored state."""


def collect_tensors(value: object) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    return [it for it in tree_leaves(value) if isinstance(it, Tensor)]
