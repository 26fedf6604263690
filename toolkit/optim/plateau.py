"""A rate that is lowered whenever validation stops improving."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_lr_scheduler
from toolkit.optim.schedules import WarmupConfig


@dataclass(frozen=True, kw_only=True)
class PlateauConfig(WarmupConfig):
    factor: float = 0.1
    """Factor on the rate at a plateau, between 0 and 1."""
    patience: int = 0
    """Validations in a row without improvement to put up with before the rate is lowered."""
    threshold: float = 1e-4
    """What counts as an improvement: a figure better by this share of the best one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.factor < 1:
            raise ToolkitError(
                f"lr_scheduler.factor must lie between 0 and 1, but is {self.factor}."
            )
        for name in ("patience", "threshold"):
            value = getattr(self, name)
            if value < 0:
                raise ToolkitError(f"lr_scheduler.{name} must not be negative, but is {value}.")


class Plateau:
    """min(1, n / w) factor^k after k plateaus; a checkpoint remembers k and the best figure."""

    def __init__(self, c: PlateauConfig, total_updates: int) -> None:
        self.c, self.warmup = c, max(1, c.warmup(total_updates))
        self.factor = 1.0
        self.best: float | None = None
        self.bad_validations = 0
        """Validations in a row that were no improvement."""

    def __call__(self, update: int) -> float:
        return self.factor * min(1.0, update / self.warmup)

    def on_validation(self, value: float, update: int) -> None:
        """Take note of a validation's figure; lower is better, and NaN never is."""
        best = self.best
        bar = math.inf if best is None else best - self.c.threshold * abs(best)
        if value < bar:
            self.best, self.bad_validations = value, 0
            return
        self.bad_validations += 1
        if self.bad_validations > self.c.patience:
            self.factor, self.bad_validations = self.factor * self.c.factor, 0

    def state(self) -> dict[str, Any]:
        return {"factor": self.factor, "best": self.best, "stale": self.bad_validations}

    def restore(self, state: dict[str, Any]) -> None:
        self.factor, self.best, self.bad_validations = (
            state["factor"],
            state["best"],
            state["stale"],
        )


@register_lr_scheduler("plateau", PlateauConfig())
def plateau(c: PlateauConfig, total_updates: int) -> Plateau:
    """min(1, n / w) factor^k after k plateaus of the validation figure (fairseq's
    reduce_lr_on_plateau; the rule is that of torch's ReduceLROnPlateau)."""
    return Plateau(c, total_updates)
