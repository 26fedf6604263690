"""Options of toolkit-average, toolkit-inspect and toolkit-convert."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NO_SPLIT, Above, Limit, NonNegativeInt, PositiveInt
from toolkit.config.sections import DeviceOptions, OutputOptions, WeightsOptions


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
    """Checkpoints to average; with --last, their save folders."""
    output: str = ""
    """Checkpoint folder to write. It must not exist."""
    last: PositiveInt | None = None
    """Average the last N checkpoints of each save folder."""
    kind: Literal["all", "epochs", "updates"] = "all"
    """Checkpoints that --last counts: epochs, saved at the end of an epoch; updates, saved between
    epochs; or all."""


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
    """Data folders (shards as a:b:c), checkpoints or save folders, for their last one. Options that
    differ between runs are listed."""
    verify: bool = False
    """Read everything and compare it with its checksums."""
    examples: NonNegativeInt = 0
    """Number of items to print of each split, evenly spread."""
    flops: bool = False
    """Count the floating-point operations of each layer, of an update and of the whole run of a
    checkpoint; or with --arch NAME, of a run described by the options of toolkit-train."""
    word_order: str | None = None
    """Measure how much the loss of each checkpoint increases if words are shuffled within windows
    of 2, 4, 8 words and within the whole sentence. The text is the valid split of a data folder, or
    a text file with one sentence per line."""
    shuffles: PositiveInt = 2
    """Number of random orders per window to average."""
    limit: PositiveInt = 2000
    """Maximum number of sentences that --word-order reads, evenly spread over the text."""


@dataclass(frozen=True, kw_only=True)
class FlopsConfig(OutputOptions, section="inspect"):
    """Options of toolkit-inspect with an architecture."""

    flops: bool = True
    """Count the floating-point operations of each layer, of an update and of the whole run that
    the options of toolkit-train describe. No data is needed; a data folder gives its vocabulary
    size."""
    vocabulary_size: Annotated[int, Above(5), Limit(2**22)] | None = None
    """Vocabulary size if no data folder is given. Default: 30522, as BERT."""


@dataclass(frozen=True, kw_only=True)
class ConversionOptions(OutputOptions):
    """Options of every direction of toolkit-convert."""

    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """SOURCE and DESTINATION, a folder that does not exist."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.paths) != 2:
            raise ToolkitError(f"Name two paths, SOURCE and DESTINATION, not {len(self.paths)}.")


@dataclass(frozen=True, kw_only=True)
class ImportConfig(ConversionOptions):
    """Options of toolkit-convert import."""

    pairs: bool = False
    """A classifier of Transformers reads pairs of texts."""


@dataclass(frozen=True, kw_only=True)
class ExportConfig(WeightsOptions, ConversionOptions):
    """Options of toolkit-convert export."""

    classes: Literal["auto", "native", "toolkit"] = "auto"
    """Classes that open the model. native: those of Transformers, such as BertForMaskedLM; toolkit:
    those of toolkit.huggingface, for every architecture; auto: native if they compute the same."""
    component: Literal["discriminator", "generator"] | None = None
    """Part of a model trained with --task rtd. Default: discriminator."""


@dataclass(frozen=True, kw_only=True)
class OnnxConfig(WeightsOptions, ConversionOptions):
    """Options of toolkit-convert onnx."""

    batch: PositiveInt | None = None
    """Fixed number of rows in a batch. Default: any."""
    length: PositiveInt | None = None
    """Fixed number of tokens in a row. Default: any."""
