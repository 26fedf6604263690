"""Which data a run learns from, and how it is batched."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolkit.config.checks import require


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    dirs: list[str] = field(default_factory=list)
    """Folders that toolkit-preprocess or fairseq-preprocess wrote; the positional arguments of
    toolkit-train. Several are read as one; with colons, as in a:b:c, they are shards of one corpus,
    of which epoch 1 reads the first, epoch 2 the second, and so on, round and round."""
    weights: list[float] = field(default_factory=list)
    """How often an epoch meets each of several corpora, as in 2,0.5: 1 is once, 0.5 is a half drawn
    anew every epoch. Without it each is met once."""
    train_subset: str = "train"
    """Split to learn from."""
    valid_subset: str = "valid"
    """Splits to validate on, separated by commas; empty for none."""
    max_tokens: int | None = None
    """Most tokens in one micro-batch, padding included."""
    batch_size: int | None = None
    """Most examples in one micro-batch. Without this and max_tokens, 32."""
    max_tokens_valid: int | None = None
    """Most tokens in one batch of validation, padding included. Without this and batch_size_valid,
    16,384 on a GPU and as in training on a CPU; batches that do not fit into memory are halved."""
    batch_size_valid: int | None = None
    """Most examples in one batch of validation."""
    evaluation_seed: int = 0
    """Seed of what validation draws, such as which tokens it hides. It is apart from the seed of
    training, so that runs of different seeds are measured on the same examples."""
    num_workers: int = 1
    """Processes that prepare batches ahead of the trainer; 0 prepares them in between."""
    timeout_seconds: int = 600
    """Longest wait for a batch from these processes; then the run ends and says what they were
    reading. 0 waits for ever."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "batch_size", "max_tokens_valid", "batch_size_valid"):
            value = getattr(self, name)
            require(
                value is None or value > 0,
                f"data.{name} must be at least 1, but is {value}. Leave it out for no bound.",
            )
        for name in ("num_workers", "timeout_seconds"):
            value = getattr(self, name)
            require(value >= 0, f"data.{name} must not be negative, but is {value}.")
        require(
            all(0 < weight < float("inf") for weight in self.weights),
            f"data.weights must be numbers above 0, but are {self.weights}. Leave a corpus out "
            f"instead of giving it no weight.",
        )
        require(
            len(self.weights) in (0, len(self.dirs)),
            f"data.weights must be one for each corpus, but there are {len(self.weights)} for "
            f"{len(self.dirs)}. Shards of one corpus (a:b) share one weight.",
        )
