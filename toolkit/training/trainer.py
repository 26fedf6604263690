"""The training loop: fit calls step; step calls the learner, the criterion and the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.common.arrays import IntArray
from toolkit.criteria import Criterion
from toolkit.data.loading.loader import BatchLoader
from toolkit.distributed import World, wrap_data_parallel
from toolkit.distributed.world import synchronize
from toolkit.optim.schedules import Schedule
from toolkit.optim.update import Precision, SpikeDetector, Update, clip_and_step
from toolkit.tasks.examples import Batch
from toolkit.tasks.learner import Learner
from toolkit.training.gradient import GradientAccumulator, Losses, OomRetry
from toolkit.training.step import Callback, GradientObserver, Step, TrainingProgress

ParameterUpdate = Callable[[Tensor | None], Update]
"""Makes an update of the gradients that are there; given the mean loss if spikes are skipped."""


Adjustment = Callable[[float | None], None]
"""Sets values for an update, from its epoch with the elapsed fraction; None is evaluation."""


class Trainer:
    """Trains a learner: `fit` calls `step` for each update, and then the callbacks."""

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
        self.clip_norm, self.update_freq = clip_norm, update_freq
        self.spike_detector = spike_detector
        self.accumulator = GradientAccumulator(
            learner, self.wrapped, criterion, world=world, precision=precision
        )
        self.accumulate_gradients = OomRetry(self.accumulator, seed)
        self.update_parameters: ParameterUpdate = self.clip_and_step
        self.parameters = [p for p in learner.parameters() if p.requires_grad]
        self.peak_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.progress = TrainingProgress()
        self.adjustments: list[Adjustment] = []
        self.last_step: Step | None = None
        self.gradient_observers: list[GradientObserver] = []
        self.finished = self.stop_requested = False
        self.stopped = False
        """Whether some rank's request ended training early."""
        self.waited_seconds = self.busy_seconds = 0.0

    def finish(self) -> None:
        """End training after the current update; all ranks must call it after the same one."""
        self.finished = True

    def request_stop(self) -> None:
        """Stop all ranks before their next update; the request of one rank is enough."""
        self.stop_requested = True

    def fit(
        self,
        get_loader: Callable[[int], BatchLoader[Batch]],
        *,
        max_update: int,
        max_epoch: int | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Train until a limit, a callback's call of `finish`, or a rank's request to stop."""
        every: Sequence[object] = callbacks
        self.gradient_observers = [each for each in every if isinstance(each, GradientObserver)]
        while not self.finished and not self.reached_limit(max_update, max_epoch):
            epoch, loader = self.progress.epoch, get_loader(self.progress.epoch)
            of_epoch = loader.micro_batches(epoch), loader.words(epoch)
            waiting_since = perf_counter()
            self.accumulate_gradients.loader = loader
            for micro_batches in loader.updates(
                epoch, start=self.progress.consumed, update_freq=self.update_freq
            ):
                started = perf_counter()
                step = self.step(micro_batches, *of_epoch)
                if step is None:
                    self.stopped = True
                    return
                self.waited_seconds += started - waiting_since
                self.busy_seconds += perf_counter() - started
                self.last_step = step
                for callback in callbacks:
                    callback(step)
                if self.finished or self.reached_limit(max_update, max_epoch):
                    break
                waiting_since = perf_counter()

    def wait_for_device(self) -> None:
        """Wait for a GPU's updates, in the training time, before a callback reads from it or keeps
        it busy.
        """
        started = perf_counter()
        synchronize(self.world.device)
        self.busy_seconds += perf_counter() - started

    def reached_limit(self, max_update: int, max_epoch: int | None) -> bool:
        return self.progress.update >= max_update or (
            max_epoch is not None and self.progress.epoch > max_epoch
        )

    def step(
        self,
        micro_batches: Sequence[Batch],
        epoch_micro_batches: int,
        epoch_words: IntArray | None = None,
    ) -> Step | None:
        """One update with the gradient of sum_o coefficient_o total_o / W_o over all ranks.

        W_o, the weight of objective o over all micro-batches of all ranks, is known before the
        first forward, so nothing is divided afterwards. Returns None if a rank requested a stop.
        """
        weights, stop = self.sync_weights_and_stop(micro_batches)
        if stop:
            return None
        before, losses = self.progress, Losses()
        factor = self.schedule(before.update + 1)
        for group, peak in zip(self.optimizer.param_groups, self.peak_lrs, strict=True):
            group["lr"] = peak * factor
        for adjust in self.adjustments:
            adjust(before.epoch + before.consumed / epoch_micro_batches)
        if any(weights.values()):
            losses = self.accumulate_gradients(micro_batches, weights, before)
        outcome = self.apply_update(losses, weights)
        for adjust in self.adjustments:
            adjust(None)
        consumed = len(micro_batches) * self.world.size
        self.progress = before.advance(consumed, epoch_micro_batches, epoch_words)
        return Step(
            progress=self.progress,
            epoch=before.epoch,
            start=before.consumed,
            words_before=before.words_seen,
            losses=losses,
            weights=weights,
            tokens=sum(batch.tokens for batch in micro_batches),
            learning_rate=max(self.peak_lrs) * factor,
            outcome=outcome,
            micro_batches=micro_batches,
            oom_failures=self.accumulate_gradients.failures if losses else (),
        )

    def sync_weights_and_stop(
        self, micro_batches: Sequence[Batch]
    ) -> tuple[dict[str, float], bool]:
        """Each objective's weight over all ranks, and whether any of them requested a stop."""
        names = list(self.learner.task.coefficients)
        mine = [sum(batch.weights.get(name, 0.0) for batch in micro_batches) for name in names]
        vector = torch.tensor([*mine, float(self.stop_requested)], dtype=torch.float64)
        *weights, stop = self.world.all_reduce(vector).tolist()
        return dict(zip(names, weights, strict=True)), stop > 0

    def apply_update(self, losses: Losses, weights: Mapping[str, float]) -> Update:
        """Clip, step unless the update must be skipped, and clear the gradients."""
        loss = self.accumulator.global_loss(losses, weights) if self.spike_detector else None
        scale = self.precision.loss_scale
        for observer in self.gradient_observers:
            observer.on_gradients(scale.scale if scale else 1.0)
        outcome = self.update_parameters(loss)
        self.optimizer.zero_grad()
        return outcome

    def clip_and_step(self, loss: Float[Tensor, ""] | None) -> Update:
        """Clip and step; the mean loss over all ranks is given if spikes are to be skipped."""
        scale, should_skip = self.precision.loss_scale, None
        if self.spike_detector and loss is not None:
            should_skip = partial(self.spike_detector, loss)
        outcome = clip_and_step(
            self.optimizer,
            self.parameters,
            clip_norm=self.clip_norm,
            loss_scale=scale.scale if scale else None,
            should_skip=should_skip,
        )
        if scale:
            scale.update(outcome.norm.isfinite().logical_not().float())
        return outcome
