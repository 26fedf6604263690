"""A schedule that reduces the learning rate when validation stops improving."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, TypedDict

from toolkit.common.json_files import Count, JsonObject, convert
from toolkit.common.registry import register_lr_scheduler
from toolkit.config.declared import Above, Below, NonNegativeFloat, NonNegativeInt
from toolkit.optim.schedules import WarmupConfig


@dataclass(frozen=True, kw_only=True)
class PlateauConfig(WarmupConfig):
    """Options of the schedule plateau."""

    factor: Annotated[float, Above(0), Below(1)] = 0.1
    """Factor on the learning rate at each plateau."""
    patience: NonNegativeInt = 0
    """Number of consecutive validations without improvement before the rate is reduced."""
    threshold: NonNegativeFloat = 1e-4
    """Minimum improvement, relative to the best value."""


class PlateauState(TypedDict):
    """State of a Plateau in a checkpoint."""

    factor: float
    best: float | None
    bad_validations: Count


class Plateau:
    """min(1, n / w) factor^k after k plateaus; its state is saved in checkpoints."""

    def __init__(self, c: PlateauConfig, total_updates: int) -> None:
        self.c, self.warmup = c, max(1, c.warmup(total_updates))
        self.factor = 1.0
        self.best: float | None = None
        self.bad_validations = 0
        """Consecutive validations without improvement."""

    def __call__(self, update: int) -> float:
        return self.factor * min(1.0, update / self.warmup)

    def on_validation(self, value: float, update: int) -> None:
        """Record a validation metric; lower is better, and NaN is no improvement."""
        best = self.best
        limit = math.inf if best is None else best - self.c.threshold * abs(best)
        if value < limit:
            self.best, self.bad_validations = value, 0
            return
        self.bad_validations += 1
        if self.bad_validations > self.c.patience:
            self.factor, self.bad_validations = self.factor * self.c.factor, 0

    def reset_metric(self) -> None:
        """Start over with another metric; the learning rate stays."""
        self.best, self.bad_validations = None, 0

    def state(self) -> JsonObject:
        return {"factor": self.factor, "best": self.best, "bad_validations": self.bad_validations}

    def restore(self, state: JsonObject) -> None:
        saved = convert(state, PlateauState)
        self.factor, self.best = saved["factor"], saved["best"]
        self.bad_validations = saved["bad_validations"]


@register_lr_scheduler("plateau", PlateauConfig())
def plateau(c: PlateauConfig, total_updates: int) -> Plateau:
    """min(1, n / w) factor^k after k plateaus of the validation metric (fairseq's
    reduce_lr_on_plateau; the rule is that of torch's ReduceLROnPlateau)."""
    return Plateau(c, total_updates)
