"""Options of toolkit-inspect: what a data folder or a checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.config.options import WHOLE
from toolkit.config.sections import require


@dataclass(frozen=True, kw_only=True)
class InspectConfig:
    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=WHOLE)
    """Data folders (shards as a:b:c), checkpoints or save folders; of a save folder, its last
    checkpoint."""
    verify: bool = False
    """Read every byte and compare it with its checksum."""
    examples: int = 0
    """Items to show as text of each split of a data folder, spread evenly over it."""

    json: str | None = None
    """File to write numbers to as JSON lines; - for standard output, on which nothing else
    is then written."""

    def __post_init__(self) -> None:
        require(bool(self.paths), "a data folder or a checkpoint must be named, but none is.")
        require(self.examples >= 0, f"examples must not be negative, but is {self.examples}.")
