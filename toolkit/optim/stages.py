"""Schedules of stages: up, along, and down."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_lr_scheduler
from toolkit.optim.schedules import DecayConfig, Schedule, between

SHAPES = ("linear", "sqrt")


@dataclass(frozen=True, kw_only=True)
class StableConfig(DecayConfig):
    decay_share: float = 0.1
    """Last share of the run, in which the rate falls, 0 to 1."""
    shape: str = "sqrt"
    """How it falls: linear, a straight line; sqrt, as 1 - sqrt of the share that is over."""

    def __post_init__(self) -> None:
        super().__post_init__()
        between("decay_share", self.decay_share)
        if self.shape not in SHAPES:
            raise ToolkitError(
                f"lr_scheduler.shape must be {' or '.join(SHAPES)}, but is {self.shape!r}."
            )


@register_lr_scheduler("wsd", StableConfig())
def wsd(c: StableConfig, total_updates: int) -> Schedule:
    """n / w up to update w, 1, then end + (1 - end) (1 - x) or (1 - sqrt(x)) over the last d
    updates, x = (n - 1 - (total - d)) / d (Hu et al. 2024, section 4; Hagele et al. 2024, eq. 1).

    The peak does not depend on the length of the run: one that is to go on longer goes on from a
    checkpoint before the decay.
    """
    w, total = c.warmup(total_updates), total_updates
    d = round(c.decay_share * total)

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
        between("start_rate", self.start_rate)
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
