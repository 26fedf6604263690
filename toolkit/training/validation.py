"""Validation during training: the best, and when it has been for too long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.metrics.records import Value
from toolkit.metrics.sinks import Sink
from toolkit.training.step import Figures, State, Step
from toolkit.training.trainer import Trainer


class Validation:
    """Validates at each epoch's end and every so many updates; knows the best, ends when stale."""

    def __init__(
        self,
        trainer: Trainer,
        subsets: Mapping[str, Callable[[], Figures]],
        sink: Sink | None,
        *,
        interval: int = 0,
        patience: int = 0,
        metric: str = "loss",
        examples: str = "",
    ) -> None:
        self.trainer, self.subsets, self.sink = trainer, subsets, sink
        self.interval, self.patience, self.metric = interval, patience, metric
        self.examples = examples
        """Fingerprint of those that decide: figures of others are no measure for them."""
        self.best: dict[str, Any] | None = None
        self.stale = 0
        """Validations in a row that did not improve the best."""
        self.validated_at = -1
        self.latest: dict[str, Figures] = {}

    def __call__(self, step: Step) -> None:
        if step.ends_epoch or (self.interval and step.update % self.interval == 0):
            self.validate(step.update, step.epoch)

    def validate(self, update: int, epoch: int) -> None:
        """All subsets; the first one decides about best and patience."""
        if not self.subsets or self.validated_at == update:
            return
        begun = perf_counter()
        for subset, figures in self.subsets.items():
            self.latest[subset] = figures()
            if self.sink:
                seconds = perf_counter() - begun
                where: dict[str, Value] = {"update": update, "epoch": epoch, "subset": subset}
                self.sink.write("valid", {**where, **self.latest[subset], "seconds": seconds})
        self.validated_at = update
        self.judge(self.latest[next(iter(self.subsets))], update)

    def judge(self, figures: Figures, update: int) -> None:
        if self.metric not in figures:
            raise ToolkitError(
                f"training.best_metric must be a figure of validation, but is {self.metric!r}. "
                f"Known: {', '.join(figures)}."
            )
        value = figures[self.metric]
        if improves(self.metric, value, self.best["value"] if self.best else None):
            self.best = {"metric": self.metric, "value": value, "update": update}
            self.stale = 0
            return
        self.stale += 1
        if self.patience and self.stale >= self.patience:
            self.trainer.finish()

    @property
    def improved_at(self) -> int | None:
        return self.best["update"] if self.best else None

    def state(self) -> State:
        return {
            "best": self.best,
            "examples": self.examples,
            "stale": self.stale,
            "validated_at": self.validated_at,
            "latest": self.latest,
        }

    def restore(self, state: State) -> None:
        """Another metric, or other examples to judge by, start afresh."""
        same = state["best"] is None or state["best"]["metric"] == self.metric
        if same and state["examples"] == self.examples:
            self.best, self.stale = state["best"], state["stale"]
            self.validated_at, self.latest = state["validated_at"], state["latest"]


def improves(metric: str, value: float, best: float | None) -> bool:
    """Losses and perplexities are better lower, everything else higher; NaN is never better."""
    if math.isnan(value):
        return False
    if best is None:
        return True
    lower = metric == "ppl" or metric == "loss" or metric.endswith("_loss")
    return value < best if lower else value > best
