"""Options of toolkit-convert: models from and to other programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.config.options import NO_SPLIT
from toolkit.config.sections import require

DIRECTIONS = ("toolkit", "hf")
MODEL_COMPONENTS = ("discriminator", "generator")
WEIGHTS = ("auto", "trained", "average")


@dataclass(frozen=True, kw_only=True)
class ConvertConfig:
    POSITIONAL: ClassVar[str] = "paths"

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """SRC and DST. SRC is a folder of Hugging Face Transformers, a RoBERTa checkpoint of fairseq
    (.pt) or a checkpoint of the toolkit; DST a folder that is not there yet."""
    to: str = ""
    """toolkit, to read another program's model, or hf, to write one for Transformers."""
    weights: str = "auto"
    """With --to hf: auto, trained or average. auto is the moving average where the run kept one,
    trained the weights themselves."""
    component: str | None = None
    """With --to hf, of a model trained with --task rtd: discriminator, which is meant without this,
    or generator."""

    json: str | None = None
    """File to write what was converted to as JSON lines; - for standard output, on which nothing
    else is then written."""

    def __post_init__(self) -> None:
        require(
            len(self.paths) == 2,
            f"SRC and DST must be named, but {len(self.paths)} "
            f"{'path is' if len(self.paths) == 1 else 'paths are'} given.",
        )
        require(self.to in DIRECTIONS, f"--to must be toolkit or hf, but is {self.to!r}.")
        require(
            self.weights in WEIGHTS,
            f"weights must be one of {', '.join(WEIGHTS)}, but is {self.weights!r}.",
        )
        require(
            self.component in (None, *MODEL_COMPONENTS),
            f"component must be {' or '.join(MODEL_COMPONENTS)}, but is {self.component!r}.",
        )
        require(
            self.to == "hf" or self.component is None,
            f"component must be left out with --to toolkit, but is {self.component}: each net of "
            "Transformers "
            f"is a folder of its own.",
        )
        require(
            self.to == "hf" or self.weights == "auto",
            f"weights must be left out with --to toolkit, but is {self.weights}: it chooses among "
            f"those of the toolkit's own checkpoints.",
        )
