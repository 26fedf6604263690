"""Options of toolkit-average: one checkpoint from several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.config.options import NO_SPLIT
from toolkit.config.sections import check_choice, require

KINDS = ("all", "epochs", "updates")


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Checkpoints whose weights to average; or, with --last, save folders to choose them from."""
    output: str = ""
    """Folder to write the average to, a checkpoint like the others; it must not be there yet."""
    last: int | None = None
    """Average the newest so many checkpoints of each save folder named."""
    kind: str = "all"
    """Which of a save folder's checkpoints --last counts: epochs, those saved at the end of an
    epoch; updates, those saved in between; or all."""

    json: str | None = None
    """File to write what was averaged to as JSON lines; - for standard output, on which nothing
    else is then written."""

    def __post_init__(self) -> None:
        require(
            bool(self.paths),
            "checkpoints must be named, but none is. Name them, or a save folder with --last.",
        )
        require(bool(self.output), "--output must name a folder, but is missing. Choose a new one.")
        require(
            self.last is None or self.last > 0,
            f"last must be at least 1, but is {self.last}. Leave it out to name checkpoints.",
        )
        check_choice("kind", self.kind, KINDS)
        require(
            self.last is not None or self.kind == "all",
            f"kind must be left out where --last is not given, but is {self.kind}: the "
            f"checkpoints that are named are all averaged.",
        )
