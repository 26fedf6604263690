"""Options of toolkit-inspect: contents of data folders and checkpoints, cost of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, Limit, NonNegativeInt, PositiveInt
from toolkit.config.option_groups import DeviceOptions, OutputOptions
from toolkit.config.options import NO_SPLIT, changed_options, to_flag


@dataclass(frozen=True, kw_only=True)
class InspectConfig(
    DeviceOptions,
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
    word_order: str | None = None
    """Measure how much the loss of each checkpoint increases if words are shuffled within windows
    of 2, 4, 8 words and within the whole sentence. The text is the valid split of a data folder, or
    a text file with one sentence per line."""
    shuffles: PositiveInt = 2
    """Number of random orders per window that --word-order averages."""
    limit: PositiveInt = 2000
    """Maximum number of sentences that --word-order reads, evenly spread over the text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        modes = {"--verify": self.verify, "--examples": self.examples, "--flops": self.flops}
        given = [option for option, value in modes.items() if value]
        if self.word_order is not None and given:
            raise ToolkitError(f"--word-order cannot be combined with {given[0]}.")
        if self.word_order == "":
            raise ToolkitError(
                "--word-order must be a data folder or a text file, but is ''. Name one."
            )
        unused = sorted({"shuffles", "limit"} & changed_options(self))
        if self.word_order is None and unused:
            raise ToolkitError(
                f"{to_flag(unused[0])} requires --word-order, the only mode that reads it. Add "
                f"--word-order TEXT, or leave {to_flag(unused[0])} out."
            )


@dataclass(frozen=True, kw_only=True)
class FlopsConfig(OutputOptions, section="inspect", required={"flops": "--arch requires --flops."}):
    """Options of toolkit-inspect --flops with an architecture."""

    flops: bool = False
    """Count the floating-point operations of each layer, of an update and of the whole run that
    the options of toolkit-train describe. No data is needed; a data folder gives its vocabulary
    size."""
    vocabulary_size: Annotated[int, Above(5), Limit(2**22)] | None = None
    """Vocabulary size if no data folder is given. Default: 30522, as BERT."""
