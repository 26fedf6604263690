"""How a run spreads over processes, and what it gives up to fit into their memory."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections.require import one_of, require


@dataclass(frozen=True, kw_only=True)
class ScaleConfig:
    update_freq: int = 1
    """Micro-batches that each rank accumulates for one update."""
    global_batches: int | None = None
    """Micro-batches of one update over all ranks, in place of update_freq: the same run at any
    number of ranks that divides it."""
    sharding: str = "none"
    """none or full. none keeps everything on every rank (DDP); full keeps a share of parameters,
    gradients and optimizer on each (FSDP2). Needs torchrun."""
    checkpoint_activations: bool = False
    """Compute each layer anew in the backward pass: less memory, more time, the same gradients."""
    compile: bool = False
    """Compile each layer with torch.compile; the first updates take long."""

    def __post_init__(self) -> None:
        for name in ("update_freq", "global_batches"):
            value = getattr(self, name)
            require(
                value is None or value > 0,
                f"training.{name} must be at least 1, but is {value}.",
            )
        require(
            self.global_batches is None or self.update_freq == 1,
            f"training.update_freq must be left out where training.global_batches is given, but "
            f"is {self.update_freq}. {self.global_batches} micro-batches over all ranks determine "
            f"it.",
        )
        one_of("training.sharding", self.sharding, ("none", "full"))

    def micro_batches_per_rank(self, ranks: int) -> int:
        """What each rank accumulates for one update."""
        if self.global_batches is None:
            return self.update_freq
        possible = [n for n in range(1, self.global_batches + 1) if self.global_batches % n == 0]
        require(
            ranks in possible,
            f"training.global_batches must be a multiple of the number of ranks, but is "
            f"{self.global_batches} for {ranks}. Start one of {', '.join(map(str, possible))} "
            f"processes.",
        )
        return self.global_batches // ranks
