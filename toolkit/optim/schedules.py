"""Learning-rate schedules: functions of the update number; only `plateau` has a state.

A schedule is registered as `build(config, total_updates) -> Schedule`; `schedule(n)` is the factor
of update n = 1 .. total on the optimizer's peak rate. w is the number of warm-up updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonObject, convert_fields
from toolkit.common.registry import register_lr_scheduler
from toolkit.config.declared import (
    Above,
    AtMost,
    Below,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFloat,
    PositiveInt,
)

Schedule = Callable[[int], float]


@runtime_checkable
class MetricSchedule(Protocol):
    """A schedule that also follows validation metrics; lower values are better."""

    def __call__(self, update: int) -> float: ...
    def on_validation(self, value: float, update: int) -> None:
        """Receive the metric of a validation after `update` updates."""

    def reset_metric(self) -> None:
        """Forget earlier values: a resumed run follows another metric."""

    def state(self) -> JsonObject:
        """The state to store in a checkpoint, as JSON values."""

    def restore(self, state: JsonObject) -> None:
        """Continue from a stored state."""


MAX_FACTORS = 100_000
"""Updates of a run at which a schedule is looked at."""
JUMP = 3.0
"""A fall from the peak this many times the next one is a jump."""


def describe_misfit(schedule: Schedule, total_updates: int) -> str:
    """Why a schedule does not fit the length of its run; empty if it does."""
    stride = max(1, math.ceil(total_updates / MAX_FACTORS))
    factors = [schedule(n) for n in range(1, total_updates + 1, stride)]
    peak = max(factors, default=1.0)
    last = len(factors) - factors[::-1].index(peak) if factors else 0
    if peak < 0.9 and last == len(factors) > 1 and not isinstance(schedule, MetricSchedule):
        return (
            f"the learning rate rises to {peak:.1%} of its peak only: the warm-up is longer than "
            f"the run of {total_updates:,} updates. Choose --warmup-updates, or a longer run"
        )
    around = factors[max(0, last - 2) : last + 2]  # before the peak, at it, and after it
    if len(around) < 4 or stride > 1 or around[0] == peak:
        return ""
    falls = around[1] - around[2], around[2] - around[3]
    if falls[0] > 0.05 and falls[0] > JUMP * falls[1]:
        return (
            f"the learning rate falls from its peak to {around[2]:.1%} in one update: the warm-up "
            f"reaches into the decay. Choose fewer --warmup-updates"
        )
    return ""


@dataclass(frozen=True, kw_only=True)
class WarmupConfig(Options, section="lr_scheduler"):
    """Options of a schedule with a linear warm-up."""

    warmup_updates: NonNegativeInt = 0
    """Number of warm-up updates, over which the learning rate rises linearly to its peak."""
    warmup_fraction: Fraction = 0.0
    """Warm-up as a fraction of the run's updates, instead of warmup_updates."""

    def warmup(self, total_updates: int) -> int:
        """Number of warm-up updates."""
        fraction = self.warmup_fraction
        return round(fraction * total_updates) if fraction else self.warmup_updates


@dataclass(frozen=True, kw_only=True)
class DecayConfig(WarmupConfig):
    """Options of a schedule that decays after its warm-up."""

    end_rate: Fraction = 0.0
    """Final learning rate of the decay, as a fraction of the peak."""


def decay_after_warmup(c: DecayConfig, w: int, shape: Callable[[int], float]) -> Schedule:
    """n / w up to update w, then end + (1 - end) shape(n)."""
    return lambda n: n / w if n <= w else c.end_rate + (1 - c.end_rate) * shape(n)


@dataclass(frozen=True, kw_only=True)
class PolynomialConfig(DecayConfig):
    """Options of polynomial decay."""

    power: PositiveFloat = 1.0
    """Exponent of the decay; 1 is linear."""


@dataclass(frozen=True, kw_only=True)
class CosineConfig(DecayConfig):
    """Options of cosine decay."""

    cycles: PositiveInt = 1
    """Number of cosine cycles of equal length (warm restarts)."""


@register_lr_scheduler("linear", WarmupConfig())
def linear(c: WarmupConfig, total_updates: int) -> Schedule:
    """n / w up to update w, then (total - n + 1) / (total - w) (Devlin et al. 2019, appendix A.2).

    The peak is reached at update w; the last update has 1 / (total - w) of the peak.
    """
    return polynomial(PolynomialConfig(warmup_updates=c.warmup(total_updates)), total_updates)


@register_lr_scheduler("polynomial", PolynomialConfig())
def polynomial(c: PolynomialConfig, total_updates: int) -> Schedule:
    """n / w up to update w, then end + (1 - end) ((total - n + 1) / (total - w))^power."""
    w, total = c.warmup(total_updates), total_updates
    steps = max(1, total - w)
    return decay_after_warmup(c, w, lambda n: (max(0, total - n + 1) / steps) ** c.power)


@register_lr_scheduler("inverse_sqrt", WarmupConfig(warmup_updates=4000))
def inverse_sqrt(c: WarmupConfig, total_updates: int) -> Schedule:
    """min(n / w, sqrt(w / n)), with w at least 1 (Vaswani et al. 2017, eq. 3, scaled to peak 1)."""
    w = max(1, c.warmup(total_updates))
    return lambda n: min(n / w, math.sqrt(w / n))


@register_lr_scheduler("cosine", CosineConfig())
def cosine(c: CosineConfig, total_updates: int) -> Schedule:
    """n / w up to update w, then end + (1 - end) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017,
    eq. 5), x = (n - 1 - w) / (total - w) or, with several cycles, the elapsed fraction of the
    current one.
    """
    w = c.warmup(total_updates)

    def shape(n: int) -> float:
        elapsed = (n - 1 - w) / max(1, total_updates - w)
        x = c.cycles * elapsed % 1 if elapsed < 1 else 1.0
        return (1 + math.cos(math.pi * x)) / 2

    return decay_after_warmup(c, w, shape)


@register_lr_scheduler("fixed", WarmupConfig())
def fixed_rate(c: WarmupConfig, total_updates: int) -> Schedule:
    """min(1, n / w): warm-up, then the peak."""
    w = max(1, c.warmup(total_updates))
    return lambda n: min(1.0, n / w)


@dataclass(frozen=True, kw_only=True)
class WsdConfig(DecayConfig):
    """Options of warm-up, stable rate and decay at the end."""

    decay_fraction: Fraction = 0.1
    """Fraction of the run's updates at its end over which the rate decays."""
    shape: Literal["linear", "sqrt"] = "sqrt"
    """Shape of the decay: 1 - x or 1 - sqrt(x), with x the elapsed fraction of it."""


@register_lr_scheduler("wsd", WsdConfig())
def wsd(c: WsdConfig, total_updates: int) -> Schedule:
    """n / w up to update w, 1, then end + (1 - end) (1 - x) or (1 - sqrt(x)) over the last d
    updates, x = (n - 1 - (total - d)) / d (Hu et al. 2024, section 4; Hagele et al. 2024, eq. 1).

    Before the decay the rate does not depend on the length of the run, which may resume there.
    """
    d = round(c.decay_fraction * total_updates)

    def shape(n: int) -> float:
        x = min(1.0, max(0.0, (n - 1 - (total_updates - d)) / d)) if d else 0.0
        return 1 - (x if c.shape == "linear" else math.sqrt(x))

    return decay_after_warmup(c, c.warmup(total_updates), shape)


@dataclass(frozen=True, kw_only=True)
class TriStageConfig(Options, section="lr_scheduler"):
    """Options of the schedule with warm-up, hold and exponential decay."""

    phase_ratio: list[Fraction] = field(default_factory=lambda: [0.1, 0.4, 0.5])
    """Fractions of the run for warm-up, hold and decay; three numbers that sum to 1."""
    start_rate: Fraction = 0.01
    """Fraction of the peak at which the warm-up starts."""
    end_rate: Annotated[float, Above(0), AtMost(1)] = 0.01
    """Final learning rate of the decay, as a fraction of the peak."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.phase_ratio) != 3 or not math.isclose(sum(self.phase_ratio), 1, abs_tol=1e-6):
            raise ToolkitError(
                f"lr_scheduler.phase_ratio must be three fractions that sum to 1, but is "
                f"{','.join(f'{ratio:g}' for ratio in self.phase_ratio)}."
            )


@register_lr_scheduler("tri_stage", TriStageConfig())
def tri_stage(c: TriStageConfig, total_updates: int) -> Schedule:
    """start + (1 - start) n / w; 1 for h updates; end^x, x the elapsed fraction of the last d
    updates (Park et al. 2019, section 4.2).

    w, h and d are the phase ratios times the total number of updates.
    """
    ends = c.phase_ratio[0], sum(c.phase_ratio[:2])
    w, decay_start = (round(fraction * total_updates) for fraction in ends)
    d = total_updates - decay_start

    def factor(n: int) -> float:
        if n <= w:
            return c.start_rate + (1 - c.start_rate) * n / w
        return c.end_rate ** min(1.0, max(0, n - decay_start) / d) if d else 1.0

    return factor


@dataclass(frozen=True, kw_only=True)
class PlateauConfig(WarmupConfig):
    """Options of the schedule plateau."""

    factor: Annotated[float, Above(0), Below(1)] = 0.1
    """Factor on the learning rate at each plateau."""
    patience: NonNegativeInt = 0
    """Number of consecutive validations without improvement before the rate is reduced."""
    threshold: NonNegativeFloat = 1e-4
    """Minimum improvement, relative to the best value."""


PLATEAU_STATE = {"factor": float, "best": float | None, "bad_validations": Count}
"""State of a Plateau in a checkpoint: attribute -> its type."""


@register_lr_scheduler("plateau", PlateauConfig())
class Plateau:
    """min(1, n / w) factor^k after k plateaus of the validation metric (fairseq's
    reduce_lr_on_plateau; the rule is that of torch's ReduceLROnPlateau).
    """

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
        return {name: getattr(self, name) for name in PLATEAU_STATE}

    def restore(self, state: JsonObject) -> None:
        vars(self).update(convert_fields(state, PLATEAU_STATE))
