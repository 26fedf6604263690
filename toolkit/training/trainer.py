"""The training loop: fit calls step; step calls the learner, the criterion and the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import torch
from torch.optim import Optimizer

from toolkit.criteria import Criterion
from toolkit.distributed import World, wrap
from toolkit.optim.precision import Precision
from toolkit.optim.schedules import Schedule
from toolkit.optim.update import Update, update
from toolkit.tasks.batch import Batch
from toolkit.tasks.task import Learner
from toolkit.training.gradient import Gradient, Losses
from toolkit.training.oom_retry import Halving
from toolkit.training.spikes import Spikes
from toolkit.training.step import Observer, Place, Step


@runtime_checkable
class Loader(Protocol):
    """What the trainer asks of an epoch's data."""

    def micro_batches(self, epoch: int) -> int: ...
    def updates(self, epoch: int, *, start: int = 0, update_freq: int = 1) -> Any: ...


class Trainer:
    """Learns; `finish` ends it after the current step, `ask_to_stop` on all ranks at the next."""

    def __init__(
        self,
        learner: Learner,
        criterion: Criterion,
        optimizer: Optimizer,
        schedule: Schedule,
        *,
        world: World,
        precision: Precision,
        clip_norm: float = 0.0,
        update_freq: int = 1,
        seed: int = 1,
        spikes: Spikes | None = None,
    ) -> None:
        self.learner, self.wrapped = learner, wrap(learner, world)
        self.criterion, self.optimizer, self.schedule = criterion, optimizer, schedule
        self.world, self.precision = world, precision
        self.clip_norm, self.update_freq, self.spikes = clip_norm, update_freq, spikes
        self.gradient = Gradient(learner, self.wrapped, criterion, world=world, precision=precision)
        self.backpropagate = Halving(self.gradient, seed)
        self.parameters = [p for p in learner.parameters() if p.requires_grad]
        self.peaks = [float(group["lr"]) for group in optimizer.param_groups]
        self.place = Place()
        self.latest: Step | None = None
        self.finished = self.asked_to_stop = False
        self.stopped = False
        """Whether some rank's asking ended training early."""
        self.waited_seconds = self.busy_seconds = 0.0

    def finish(self) -> None:
        """Take no further update; every rank must call it after the same one."""
        self.finished = True

    def ask_to_stop(self) -> None:
        """Stop all ranks before their next update; one rank's asking is enough."""
        self.asked_to_stop = True

    def fit(
        self,
        loader_of: Callable[[int], Loader],
        *,
        max_update: int,
        max_epoch: int | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Update until a limit is reached, an observer calls `finish`, or a rank asked to stop."""
        while not self.finished and not self.reached(max_update, max_epoch):
            epoch, loader = self.place.epoch, loader_of(self.place.epoch)
            in_epoch, mark = loader.micro_batches(epoch), perf_counter()
            self.backpropagate.loader = loader
            for micro_batches in loader.updates(
                epoch, start=self.place.consumed, update_freq=self.update_freq
            ):
                begun = perf_counter()
                step = self.step(micro_batches, in_epoch)
                if step is None:
                    self.stopped = True
                    return
                self.waited_seconds += begun - mark
                self.busy_seconds += perf_counter() - begun
                self.latest = step
                for observe in observers:
                    observe(step)
                if self.finished or self.reached(max_update, max_epoch):
                    break
                mark = perf_counter()

    def reached(self, max_update: int, max_epoch: int | None) -> bool:
        return self.place.update >= max_update or (
            max_epoch is not None and self.place.epoch > max_epoch
        )

    def step(self, micro_batches: Sequence[Batch], in_epoch: int) -> Step | None:
        """One update, by the gradient of sum_o coefficient_o total_o / W_o over all ranks.

        W_o, the weight of objective o over all micro-batches of all ranks, is known before the
        first forward, so nothing is divided afterwards. None where a rank asked to stop.
        """
        weights, stops = self.agree(micro_batches)
        if stops:
            return None
        rate = self.set_rate(self.schedule(self.place.update + 1))
        before = self.place
        losses = self.backpropagate(micro_batches, weights, before) if any(weights.values()) else {}
        outcome = self.update(losses, weights)
        self.place = before.after(len(micro_batches) * self.world.size, in_epoch)
        return Step(
            place=self.place,
            epoch=before.epoch,
            begin=before.consumed,
            losses=losses,
            weights=weights,
            tokens=sum(batch.tokens for batch in micro_batches),
            learning_rate=rate,
            outcome=outcome,
            micro_batches=micro_batches,
            unfit=self.backpropagate.failures if losses else (),
        )

    def agree(self, micro_batches: Sequence[Batch]) -> tuple[dict[str, float], bool]:
        """Each objective's weight over all ranks, and whether one asked to stop: one exchange."""
        names = list(self.learner.task.coefficients)
        mine = [sum(batch.weights.get(name, 0.0) for batch in micro_batches) for name in names]
        vector = torch.tensor([*mine, float(self.asked_to_stop)], dtype=torch.float64)
        *weights, stops = self.world.sum(vector).tolist()
        return dict(zip(names, weights, strict=True)), stops > 0

    def update(self, losses: Losses, weights: Mapping[str, float]) -> Update:
        """Move the parameters by the gradients, and let go of these."""
        scale, spikes = self.precision.loss_scale, self.spikes
        outcome = update(
            self.optimizer,
            self.parameters,
            clip_norm=self.clip_norm,
            loss_scale=scale.scale if scale else None,
            refuse=partial(spikes, self.gradient.loss(losses, weights)) if spikes else None,
        )
        if scale:
            scale.update(outcome.norm.isfinite().logical_not().float())
        self.optimizer.zero_grad()
        return outcome

    def set_rate(self, factor: float) -> float:
        """Give every parameter group its peak times the schedule's factor."""
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * factor
        return max(self.peaks) * factor
