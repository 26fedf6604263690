"""What a run does where numbers, memory or ranks fail."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections.require import one_of, require

PROBES = ("auto", "always", "never")


@dataclass(frozen=True, kw_only=True)
class TroubleConfig:
    skip_spikes: bool = False
    """Skip an update whose loss or gradient norm lies more than 6 standard deviations above the
    mean of the 128 updates before it. One that is not finite is always skipped."""
    check_ranks_interval: int = 100
    """Compare the parameters and the gradient norm of all ranks every so many updates; 0 for
    never."""
    memory_probe: str = "auto"
    """Try the largest batch before training, so that a lack of memory shows at once: auto, always
    or never. auto is always on a GPU and never on a CPU."""
    timeout_seconds: float = 1800.0
    """End all ranks, naming the late one, when one has waited for another for so long."""

    def __post_init__(self) -> None:
        one_of("training.memory_probe", self.memory_probe, PROBES)
        require(
            self.check_ranks_interval >= 0,
            f"training.check_ranks_interval must not be negative, but is "
            f"{self.check_ranks_interval}. 0 is never.",
        )
        require(
            self.timeout_seconds > 0,
            f"training.timeout_seconds must be above 0, but is {self.timeout_seconds}.",
        )
