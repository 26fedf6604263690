"""Which data a run learns from, and how it is batched."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.config.sections.require import require


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    folders: list[str] = field(default_factory=list)
    """Folders that toolkit-preprocess wrote; the positional arguments of toolkit-train."""
    train_subset: str = "train"
    """Split to learn from."""
    valid_subset: str = "valid"
    """Splits to validate on, separated by commas; empty for none."""
    max_tokens: int | None = None
    """Most tokens in one micro-batch, padding included."""
    batch_size: int | None = None
    """Most examples in one micro-batch. Without this and max_tokens, 32."""
    evaluation_seed: int = 0
    """Seed of what validation draws, such as which tokens it hides. It is apart from the seed of
    training, so that runs of different seeds are measured on the same examples."""
    num_workers: int = 1
    """Processes that prepare batches ahead of the trainer; 0 prepares them in between."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch_size"):
            value = getattr(self, name)
            require(
                value is None or value > 0,
                f"data.{name} must be at least 1, but is {value}. Leave it out for no bound.",
            )
        require(
            self.num_workers >= 0, f"data.num_workers must not be negative: {self.num_workers}."
        )
