"""The training loop: fit calls step; step calls the learner, the criterion and the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import torch
from torch.optim import Optimizer

from toolkit.criteria import Criterion
from toolkit.distributed import World, wrap_data_parallel
from toolkit.optim.precision import Precision
from toolkit.optim.schedules import Schedule
from toolkit.optim.update import Update, clip_and_step
from toolkit.tasks.batch import Batch
from toolkit.tasks.task import Learner
from toolkit.training.gradient import GradientAccumulator, Losses
from toolkit.training.oom_retry import OomRetry
from toolkit.training.spikes import SpikeDetector
from toolkit.training.step import Observer, Step, TrainingProgress


@runtime_checkable
class TrainingLoader(Protocol):
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
        spike_detector: SpikeDetector | None = None,
    ) -> None:
        self.learner, self.wrapped = learner, wrap_data_parallel(learner, world)
        self.criterion, self.optimizer, self.schedule = criterion, optimizer, schedule
        self.world, self.precision = world, precision
        self.clip_norm, self.update_freq, self.spike_detector = (
            clip_norm,
            update_freq,
            spike_detector,
        )
        self.accumulator = GradientAccumulator(
            learner, self.wrapped, criterion, world=world, precision=precision
        )
        self.accumulate_gradients = OomRetry(self.accumulator, seed)
        self.parameters = [p for p in learner.parameters() if p.requires_grad]
        self.peak_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.progress = TrainingProgress()
        self.last_step: Step | None = None
        self.finished = self.stop_requested = False
        self.stopped = False
        """Whether some rank's asking ended training early."""
        self.waited_seconds = self.busy_seconds = 0.0

    def finish(self) -> None:
        """Take no further update; every rank must call it after the same one."""
        self.finished = True

    def request_stop(self) -> None:
        """Stop all ranks before their next update; one rank's asking is enough."""
        self.stop_requested = True

    def fit(
        self,
        get_loader: Callable[[int], TrainingLoader],
        *,
        max_update: int,
        max_epoch: int | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Update until a limit is reached, an observer calls `finish`, or a rank asked to stop."""
        while not self.finished and not self.reached_limit(max_update, max_epoch):
            epoch, loader = self.progress.epoch, get_loader(self.progress.epoch)
            in_epoch, mark = loader.micro_batches(epoch), perf_counter()
            self.accumulate_gradients.loader = loader
            for micro_batches in loader.updates(
                epoch, start=self.progress.consumed, update_freq=self.update_freq
            ):
                begun = perf_counter()
                step = self.step(micro_batches, in_epoch)
                if step is None:
                    self.stopped = True
                    return
                self.waited_seconds += begun - mark
                self.busy_seconds += perf_counter() - begun
                self.last_step = step
                for observe in observers:
                    observe(step)
                if self.finished or self.reached_limit(max_update, max_epoch):
                    break
                mark = perf_counter()

    def reached_limit(self, max_update: int, max_epoch: int | None) -> bool:
        return self.progress.update >= max_update or (
            max_epoch is not None and self.progress.epoch > max_epoch
        )

    def step(self, micro_batches: Sequence[Batch], epoch_micro_batches: int) -> Step | None:
        """One update, by the gradient of sum_o coefficient_o total_o / W_o over all ranks.

        W_o, the weight of objective o over all micro-batches of all ranks, is known before the
        first forward, so nothing is divided afterwards. None where a rank asked to stop.
        """
        weights, stops = self.sync_weights_and_stop(micro_batches)
        if stops:
            return None
        rate = self.set_learning_rate(self.schedule(self.progress.update + 1))
        before = self.progress
        losses = (
            self.accumulate_gradients(micro_batches, weights, before)
            if any(weights.values())
            else {}
        )
        outcome = self.apply_update(losses, weights)
        self.progress = before.advance(len(micro_batches) * self.world.size, epoch_micro_batches)
        return Step(
            progress=self.progress,
            epoch=before.epoch,
            start=before.consumed,
            losses=losses,
            weights=weights,
            tokens=sum(batch.tokens for batch in micro_batches),
            learning_rate=rate,
            outcome=outcome,
            micro_batches=micro_batches,
            oom_failures=self.accumulate_gradients.failures if losses else (),
        )

    def sync_weights_and_stop(
        self, micro_batches: Sequence[Batch]
    ) -> tuple[dict[str, float], bool]:
        """Each objective's weight over all ranks, and whether one asked to stop: one exchange."""
        names = list(self.learner.task.coefficients)
        mine = [sum(batch.weights.get(name, 0.0) for batch in micro_batches) for name in names]
        vector = torch.tensor([*mine, float(self.stop_requested)], dtype=torch.float64)
        *weights, stops = self.world.all_reduce(vector).tolist()
        return dict(zip(names, weights, strict=True)), stops > 0

    def apply_update(self, losses: Losses, weights: Mapping[str, float]) -> Update:
        """Move the parameters by the gradients, and let go of these."""
        scale, spikes = self.precision.loss_scale, self.spike_detector
        outcome = clip_and_step(
            self.optimizer,
            self.parameters,
            clip_norm=self.clip_norm,
            loss_scale=scale.scale if scale else None,
            should_skip=partial(spikes, self.accumulator.global_loss(losses, weights))
            if spikes
            else None,
        )
        if scale:
            scale.update(outcome.norm.isfinite().logical_not().float())
        self.optimizer.zero_grad()
        return outcome

    def set_learning_rate(self, factor: float) -> float:
        """Give every parameter group its peak times the schedule's factor."""
        for group, peak in zip(self.optimizer.param_groups, self.peak_lrs, strict=True):
            group["lr"] = peak * factor
        return max(self.peak_lrs) * factor
