"""Options of toolkit-average: one checkpoint with the mean weights of several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import PositiveInt
from toolkit.config.option_groups import OutputOptions
from toolkit.config.options import NO_SPLIT


@dataclass(frozen=True, kw_only=True)
class AverageConfig(
    OutputOptions,
    required={
        "paths": "Name the checkpoints to average, or a save folder with --last.",
        "output": "--output is required: a folder that does not exist yet.",
    },
):
    """Options of toolkit-average."""

    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Checkpoints to average; with --last, save folders to choose them from."""
    output: str = ""
    """Checkpoint folder to write. It must not exist."""
    last: PositiveInt | None = None
    """Average the last N checkpoints of each save folder."""
    kind: Literal["all", "epochs", "updates"] = "all"
    """Checkpoints that --last counts: epochs, saved at the end of an epoch; updates, saved between
    epochs; or all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.last is None and self.kind != "all":
            raise ToolkitError(
                "--kind requires --last: all checkpoints that are named are averaged."
            )
