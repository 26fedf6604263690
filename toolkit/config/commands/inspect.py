"""Options of toolkit-inspect: what a data folder or a checkpoint holds, what a run costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.config.options import NO_SPLIT
from toolkit.config.sections import require


@dataclass(frozen=True, kw_only=True)
class InspectConfig:
    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Data folders (shards as a:b:c), checkpoints or save folders; of a save folder, its last
    checkpoint."""
    verify: bool = False
    """Read every byte and compare it with its checksum."""
    examples: int = 0
    """Items to show as text of each split of a data folder, spread evenly over it."""
    flops: bool = False
    """Count the floating-point operations of each layer, of an update and of the whole run of a
    checkpoint. With --arch NAME in place of a checkpoint, those of a run that its options
    describe: they are the options of toolkit-train."""
    json: str | None = None
    """File to write numbers to as JSON lines; - for standard output, on which nothing else
    is then written."""

    def __post_init__(self) -> None:
        require(
            bool(self.paths),
            "a data folder or a checkpoint must be named, but none is. Name one, or with --flops "
            "an architecture by --arch.",
        )
        require(self.examples >= 0, f"examples must not be negative, but is {self.examples}.")


@dataclass(frozen=True, kw_only=True)
class FlopsConfig:
    flops: bool = False
    """Count the floating-point operations of each layer, of an update and of the whole run that
    the options of toolkit-train describe. No data is needed; a folder says its vocabulary."""
    vocabulary_size: int | None = None
    """Symbols of the vocabulary where no data folder is given. Without it 30522, as BERT's."""
    json: str | None = None
    """File to write numbers to as JSON lines; - for standard output, on which nothing else
    is then written."""

    def __post_init__(self) -> None:
        require(
            self.flops, "flops must be asked for where --arch is given, but is not. Add --flops."
        )
        require(
            self.vocabulary_size is None or self.vocabulary_size > 5,
            f"vocabulary_size must be more than 5, but is {self.vocabulary_size}.",
        )
