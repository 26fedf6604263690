"""Validation during training: the best metric, and early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from time import perf_counter

import torch
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, convert_fields
from toolkit.distributed.data_parallel import local_rows, to_full, to_local
from toolkit.optim.schedules import MetricSchedule
from toolkit.reporting.runs import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.step import Metrics, State, Step, ValidationObserver
from toolkit.training.trainer import Trainer

LOWER_IS_BETTER = ("loss", "nll", "ppl")


VALIDATION_STATE = {
    "best": JsonObject | None,
    "examples": str,
    "bad_validations": Count,
    "validated_at": int,
    "latest": dict[str, Metrics],
    "schedule": JsonObject | None,
}
"""State of a Validation in a checkpoint: name -> its type."""


class Validation:
    """Validates at the end of each epoch, every N updates and after the last one; keeps track of
    the best metric, and stops training without improvement (patience).
    """

    def __init__(
        self,
        trainer: Trainer,
        subsets: Mapping[str, Callable[[], Metrics]],
        sink: Sink | None,
        *,
        interval: int = 0,
        last: int = 0,
        patience: int = 0,
        metric: str = "loss",
        examples: str = "",
        ema: ExponentialMovingAverage | None = None,
    ) -> None:
        self.trainer, self.subsets, self.sink = trainer, subsets, sink
        self.interval, self.last, self.patience, self.metric = interval, last, patience, metric
        self.examples = f"{examples} by the average" if ema else examples
        """Fingerprint of the examples of the first split: metrics of others are not comparable."""
        self.ema = ema
        """The weights to validate instead of the learner's."""
        self.schedule = trainer.schedule if isinstance(trainer.schedule, MetricSchedule) else None
        if self.schedule and not subsets:
            raise ToolkitError(
                "lr_scheduler plateau requires validation, but data.valid_subset is empty. Name a "
                "split, or choose another schedule."
            )
        self.best: JsonObject | None = None
        """`metric`, `value`, `update` of the best validation, and `valid`, its metrics by split."""
        self.bad_validations = 0
        """Consecutive validations without improvement."""
        self.validated_at = -1
        self.latest: dict[str, Metrics] = {}
        self.observers: list[ValidationObserver] = []

    def __call__(self, step: Step) -> None:
        due = self.interval and step.update % self.interval == 0
        if step.ends_epoch or due or step.update == self.last:  # before the last update is saved
            self.validate(step.update, step.epoch)

    def validate(self, update: int, epoch: int) -> None:
        """Validate all splits; the first one determines best metric and patience."""
        if not self.subsets or self.validated_at == update:
            return
        self.trainer.wait_for_device()
        started = perf_counter()
        with self.ema.swapped_in() if self.ema else nullcontext():
            for subset, evaluate in self.subsets.items():
                self.latest[subset] = evaluate()
                if self.sink:
                    seconds = perf_counter() - started
                    head: dict[str, EventValue] = {"update": update, "epoch": epoch}
                    head |= self.trainer.progress.clock
                    values = {"subset": subset, **self.latest[subset], "seconds": seconds}
                    self.sink.write("valid", {**head, **values})
        self.update_best(self.latest[next(iter(self.subsets))], update)
        self.validated_at = update
        for observer in self.observers:
            observer.on_validation(update, self.latest)

    def update_best(self, metrics: Metrics, update: int) -> None:
        """Pass the metric to the schedule, record the best, and stop without improvement."""
        check_metric(self.metric, metrics)
        value = float(metrics[self.metric])
        if self.schedule:
            self.schedule.on_validation(value if lower_is_better(self.metric) else -value, update)
        if is_improvement(self.metric, value, self.best["value"] if self.best else None):
            valid = {subset: dict(values) for subset, values in self.latest.items()}
            self.best = {"metric": self.metric, "value": value, "update": update, "valid": valid}
            self.bad_validations = 0
            return
        self.bad_validations += 1
        self.check_patience()

    def check_patience(self) -> None:
        if self.patience and self.bad_validations >= self.patience:
            self.trainer.finish()

    @property
    def improved_at(self) -> int | None:
        return self.best["update"] if self.best else None

    def state(self) -> State:
        return {
            "best": self.best,
            "examples": self.examples,
            "bad_validations": self.bad_validations,
            "validated_at": self.validated_at,
            "latest": self.latest,
            "schedule": self.schedule.state() if self.schedule else None,
        }

    def restore(self, state: State) -> None:
        """Start over if the metric or the examples have changed; the learning rate stays."""
        saved = convert_fields(state, VALIDATION_STATE)
        best, latest = saved["best"], saved["latest"]
        same_metric = best is None or best["metric"] == self.metric
        same = same_metric and saved["examples"] == self.examples
        if same:
            self.best, self.bad_validations = best, saved["bad_validations"]
            self.validated_at = saved["validated_at"]
            self.latest = {name: it for name, it in latest.items() if name in self.subsets}
            self.check_patience()
        if self.schedule and saved["schedule"]:
            self.schedule.restore(saved["schedule"])
            if not same:
                self.schedule.reset_metric()


def check_metric(metric: str, known: Iterable[str]) -> None:
    """Raise unless validation has the metric by which it selects the best checkpoint."""
    if metric not in (names := [*dict.fromkeys(known)]):
        raise ToolkitError(
            f"training.best_metric must be a metric of validation, but is {metric!r}. "
            f"Known: {', '.join(names)}. Choose one of them with --best-metric."
        )


def is_improvement(metric: str, value: float, best: float | None) -> bool:
    """Losses and perplexities improve downwards, all other metrics upwards; NaN never improves."""
    if best is None:
        return not math.isnan(value)
    return value < best if lower_is_better(metric) else value > best


def lower_is_better(metric: str) -> bool:
    """Whether it is a loss or perplexity of any kind, such as mlm_loss or word_ppl."""
    return metric.rpartition("_")[2] in LOWER_IS_BETTER


class ExponentialMovingAverage:
    """a <- d a + (1 - d) w after every update n, d = min(decay, (1 + n) / (10 + n)) with warm-up
    (Polyak & Juditsky 1992; the warm-up is that of TensorFlow's ExponentialMovingAverage).

    It starts at the initial weights. A skipped update averages the same weights once more.
    """

    def __init__(self, learner: nn.Module, decay: float, *, warmup: bool = True) -> None:
        self.learner, self.decay, self.warmup = learner, decay, warmup
        named = [(name, p) for name, p in learner.named_parameters() if p.requires_grad]
        self.parameters = [to_local(p.detach()) for _, p in named]
        self.averages = {name: to_local(p.detach()).clone() for name, p in named}

    def __call__(self, step: Step) -> None:
        self.update(step.update)

    def update(self, update: int) -> None:
        """Average in the weights after an update."""
        decay = min(self.decay, (1 + update) / (10 + update)) if self.warmup else self.decay
        torch._foreach_lerp_(list(self.averages.values()), self.parameters, 1 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Swap the average into the learner for the duration of the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and averages, bit for bit."""
        for weight, average in zip(self.parameters, self.averages.values(), strict=True):
            saved = weight.clone()
            weight.copy_(average)
            average.copy_(saved)

    def state_dict(self) -> dict[str, Tensor]:
        """The learner's state with the average as its weights, sharded tensors gathered one by one
        in host memory; all ranks must call it.
        """
        with self.swapped_in():
            state = self.learner.state_dict().items()
            return {n: to_full(t).cpu() if t is not to_local(t) else t.clone() for n, t in state}

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        for name, p in self.learner.named_parameters():
            if name in self.averages:
                self.averages[name].copy_(saved[name][local_rows(p)])
