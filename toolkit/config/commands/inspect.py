"""Options of toolkit-inspect: contents of data folders and checkpoints, cost of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from toolkit.config.declared import Above, NonNegativeInt
from toolkit.config.option_groups import OutputOptions
from toolkit.config.options import NO_SPLIT


@dataclass(frozen=True, kw_only=True)
class InspectConfig(
    OutputOptions,
    required={
        "paths": "Name a data folder or a checkpoint, or with --flops an architecture (--arch)."
    },
):
    """Options of toolkit-inspect."""

    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Data folders (shards as a:b:c), checkpoints or save folders, for their last checkpoint. The
    options that differ between several runs are listed."""
    verify: bool = False
    """Read everything and compare it with its checksums."""
    examples: NonNegativeInt = 0
    """Number of items of each split of a data folder to print as text, evenly spread."""
    flops: bool = False
    """Count the floating-point operations of each layer, of an update and of the whole run of a
    checkpoint; or with --arch NAME, of a run described by the options of toolkit-train."""


@dataclass(frozen=True, kw_only=True)
class FlopsConfig(OutputOptions, section="inspect", required={"flops": "--arch requires --flops."}):
    """Options of toolkit-inspect --flops with an architecture."""

    flops: bool = False
    """Count the floating-point operations of each layer, of an update and of the whole run that
    the options of toolkit-train describe. No data is needed; a data folder gives its vocabulary
    size."""
    vocabulary_size: Annotated[int, Above(5)] | None = None
    """Vocabulary size if no data folder is given. Default: 30522, as BERT."""
