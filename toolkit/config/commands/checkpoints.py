"""Options of toolkit-average, toolkit-inspect and toolkit-convert."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, Limit, NonNegativeInt, PositiveInt
from toolkit.config.options import NO_SPLIT, changed_options, to_flag
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


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(
    WeightsOptions,
    OutputOptions,
    required={
        "to": "--to is required: toolkit to import a model from a file or folder (nothing is "
        "downloaded), hf or onnx to export a checkpoint."
    },
):
    """Options of toolkit-convert."""

    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """SOURCE and DESTINATION. SOURCE is a Hugging Face Transformers folder, a RoBERTa checkpoint of
    fairseq (.pt) or a checkpoint of the toolkit. DESTINATION is a folder that does not exist."""
    to: Literal["toolkit", "hf", "onnx"] | None = None
    """Format to write: toolkit, hf for Hugging Face Transformers, or onnx. Required."""
    classes: Literal["auto", "native", "toolkit"] = "auto"
    """With --to hf, classes that open the model. native: those of Transformers, such as
    BertForMaskedLM; toolkit: those of toolkit.huggingface, for every architecture; auto: native if
    they compute the same."""
    component: Literal["discriminator", "generator"] | None = None
    """With --to hf, part of a model trained with --task rtd. Default: discriminator."""

    batch: PositiveInt | None = None
    """With --to onnx, fixes the number of rows in a batch. Default: any."""
    length: PositiveInt | None = None
    """With --to onnx, fixes the number of tokens in a row. Default: any."""
    pairs: bool = False
    """With --to toolkit, the model is a classifier of pairs of texts, not of single texts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.paths) != 2:
            raise ToolkitError(f"Name two paths, SOURCE and DESTINATION, not {len(self.paths)}.")
        if self.to != "hf" and self.component is not None:
            raise ToolkitError("--component requires --to hf.")
        if self.to != "toolkit" and self.pairs:
            raise ToolkitError("--pairs requires --to toolkit.")
        if self.to != "hf" and self.classes != "auto":
            raise ToolkitError("--classes requires --to hf: it selects classes of Transformers.")
        if self.to == "toolkit" and self.weights != "auto":
            raise ToolkitError("--weights requires --to hf or onnx: it selects weights to export.")
        if self.to != "onnx" and not self.batch is self.length is None:
            raise ToolkitError("--batch and --length require --to onnx: they fix a graph's shape.")
