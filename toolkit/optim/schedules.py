"""The learning rate as a function of the update: nothing to save, the same after any resume.

`plateau` alone hears of validations too, and remembers them.

A schedule is registered as `build(config, total_updates) -> Schedule`; `schedule(n)` is the
factor of update n = 1 .. total on the optimizer's peak rate. w is the number of warm-up updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_lr_scheduler

Schedule = Callable[[int], float]


@runtime_checkable
class MetricSchedule(Protocol):
    """A schedule that hears of validations: lower values are better ones."""

    def __call__(self, update: int) -> float: ...
    def on_validation(self, value: float, update: int) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class WarmupConfig:
    warmup_updates: int = 0
    """Updates over which the learning rate rises linearly to its peak."""
    warmup_fraction: float = 0.0
    """The same as a share of the run's updates, 0 to 1, in place of warmup_updates."""

    def __post_init__(self) -> None:
        if self.warmup_updates < 0:
            raise ToolkitError(
                f"lr_scheduler.warmup_updates must not be negative, but is {self.warmup_updates}."
            )
        check_fraction("warmup_fraction", self.warmup_fraction)
        if self.warmup_fraction and self.warmup_updates != type(self).warmup_updates:
            raise ToolkitError(
                "lr_scheduler.warmup_updates must be left out where warmup_fraction is given, but "
                "is "
                f"{self.warmup_updates} beside {self.warmup_fraction}. Give one."
            )

    def warmup(self, total_updates: int) -> int:
        """The updates over which the rate rises."""
        share = round(self.warmup_fraction * total_updates)
        return share if self.warmup_fraction else self.warmup_updates


@dataclass(frozen=True, kw_only=True)
class DecayConfig(WarmupConfig):
    end_rate: float = 0.0
    """Share of the peak that the decay ends at, 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("end_rate", self.end_rate)


def check_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ToolkitError(f"lr_scheduler.{name} must lie between 0 and 1, but is {value}.")


@dataclass(frozen=True, kw_only=True)
class PolynomialConfig(DecayConfig):
    power: float = 1.0
    """Exponent of the decay; 1 is a straight line."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power <= 0:
            raise ToolkitError(f"lr_scheduler.power must be above 0, but is {self.power}.")


@dataclass(frozen=True, kw_only=True)
class CosineConfig(DecayConfig):
    cycles: int = 1
    """Times that the rate falls from its peak, equally long (warm restarts)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cycles < 1:
            raise ToolkitError(f"lr_scheduler.cycles must be at least 1, but is {self.cycles}.")


@register_lr_scheduler("linear", WarmupConfig())
def linear(c: WarmupConfig, total_updates: int) -> Schedule:
    """n / w up to update w, then (total - n + 1) / (total - w) (Devlin et al. 2019, appendix A.2).

    The peak is reached at update w; the last update still moves, by 1 / (total - w) of the peak.
    """
    return polynomial(PolynomialConfig(warmup_updates=c.warmup(total_updates)), total_updates)


@register_lr_scheduler("polynomial", PolynomialConfig())
def polynomial(c: PolynomialConfig, total_updates: int) -> Schedule:
    """n / w up to update w, then end + (1 - end) ((total - n + 1) / (total - w))^power."""
    w, total = c.warmup(total_updates), total_updates

    def factor(n: int) -> float:
        if n <= w:
            return n / w
        left = max(0, total - n + 1) / max(1, total - w)
        return c.end_rate + (1 - c.end_rate) * left**c.power

    return factor


@dataclass(frozen=True, kw_only=True)
class InverseSqrtConfig(WarmupConfig):
    warmup_updates: int = 4000
    """Updates over which the learning rate rises linearly to its peak."""


@register_lr_scheduler("inverse_sqrt", InverseSqrtConfig())
def inverse_sqrt(c: WarmupConfig, total_updates: int) -> Schedule:
    """min(n / w, sqrt(w / n)), with w at least 1 (Vaswani et al. 2017, eq. 3, scaled to peak 1)."""
    w = max(1, c.warmup(total_updates))
    return lambda n: min(n / w, math.sqrt(w / n))


@register_lr_scheduler("cosine", CosineConfig())
def cosine(c: CosineConfig, total_updates: int) -> Schedule:
    """n / w up to update w, then end + (1 - end) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017,
    eq. 5), x = (n - 1 - w) / (total - w) or, with several cycles, the part of the cycle that is
    over.
    """
    w, total = c.warmup(total_updates), total_updates

    def factor(n: int) -> float:
        if n <= w:
            return n / w
        over = (n - 1 - w) / max(1, total - w)
        x = c.cycles * over % 1 if over < 1 else 1.0
        return c.end_rate + (1 - c.end_rate) * (1 + math.cos(math.pi * x)) / 2

    return factor


@register_lr_scheduler("fixed", WarmupConfig())
def fixed(c: WarmupConfig, total_updates: int) -> Schedule:
    """min(1, n / w): warm-up, then the peak for good."""
    w = max(1, c.warmup(total_updates))
    return lambda n: min(1.0, n / w)


SHAPES = ("linear", "sqrt")


@dataclass(frozen=True, kw_only=True)
class WsdConfig(DecayConfig):
    decay_fraction: float = 0.1
    """Last share of the run, in which the rate falls, 0 to 1."""
    shape: str = "sqrt"
    """How it falls: linear, a straight line; sqrt, as 1 - sqrt of the share that is over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("decay_fraction", self.decay_fraction)
        if self.shape not in SHAPES:
            raise ToolkitError(
                f"lr_scheduler.shape must be {' or '.join(SHAPES)}, but is {self.shape!r}."
            )


@register_lr_scheduler("wsd", WsdConfig())
def wsd(c: WsdConfig, total_updates: int) -> Schedule:
    """n / w up to update w, 1, then end + (1 - end) (1 - x) or (1 - sqrt(x)) over the last d
    updates, x = (n - 1 - (total - d)) / d (Hu et al. 2024, section 4; Hagele et al. 2024, eq. 1).

    The peak does not depend on the length of the run: one that is to go on longer goes on from a
    checkpoint before the decay.
    """
    w, total = c.warmup(total_updates), total_updates
    d = round(c.decay_fraction * total)

    def factor(n: int) -> float:
        if n <= w:
            return n / w
        x = min(1.0, max(0.0, (n - 1 - (total - d)) / d)) if d else 0.0
        left = 1 - (x if c.shape == "linear" else math.sqrt(x))
        return c.end_rate + (1 - c.end_rate) * left

    return factor


@dataclass(frozen=True, kw_only=True)
class TriStageConfig:
    phase_ratio: list[float] = field(default_factory=lambda: [0.1, 0.4, 0.5])
    """Shares of the run for warm-up, hold and decay; three numbers, together 1."""
    start_rate: float = 0.01
    """Share of the peak that the warm-up begins at, 0 to 1."""
    end_rate: float = 0.01
    """Share of the peak that the decay ends at, above 0 up to 1."""

    def __post_init__(self) -> None:
        if (
            len(self.phase_ratio) != 3
            or min(self.phase_ratio) < 0
            or not math.isclose(sum(self.phase_ratio), 1, abs_tol=1e-6)
        ):
            raise ToolkitError(
                f"lr_scheduler.phase_ratio must be three shares that add up to 1, but is "
                f"{','.join(f'{ratio:g}' for ratio in self.phase_ratio)}."
            )
        check_fraction("start_rate", self.start_rate)
        if not 0 < self.end_rate <= 1:
            raise ToolkitError(
                f"lr_scheduler.end_rate must be above 0 and at most 1, but is {self.end_rate}."
            )


@register_lr_scheduler("tri_stage", TriStageConfig())
def tri_stage(c: TriStageConfig, total_updates: int) -> Schedule:
    """start + (1 - start) n / w; 1 for h updates; end^x, x the share of the d others that is over
    (Park et al. 2019, section 4.2).

    w, h and d are the phase ratios of all updates.
    """
    w, held = (round(share * total_updates) for share in (c.phase_ratio[0], sum(c.phase_ratio[:2])))
    d = total_updates - held

    def factor(n: int) -> float:
        if n <= w:
            return c.start_rate + (1 - c.start_rate) * n / w
        return c.end_rate ** min(1.0, max(0, n - held) / d) if d else 1.0

    return factor
