"""Options of toolkit-convert: models from and to Hugging Face Transformers, and from fairseq."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import PositiveInt
from toolkit.config.option_groups import OutputOptions, WeightsOptions
from toolkit.config.options import NO_SPLIT


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
