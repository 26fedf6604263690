"""Many runs as one: which seeds and which values to try."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.config.options import WHOLE
from toolkit.config.sections import require


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    seeds: str | None = None
    """Train once with each of these seeds, separated by commas."""
    grid: list[str] = field(default_factory=list, metadata=WHOLE)
    """Option and values to try, as in arch.fixed=true,false; repeat it for every combination."""
    jobs: int = 1
    """Runs to train at the same time."""

    def __post_init__(self) -> None:
        require(self.jobs > 0, f"sweep.jobs must be at least 1, but is {self.jobs}.")
