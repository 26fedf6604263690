"""Options of toolkit-validate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from toolkit.config.options import MULTI_WORD, NO_SPLIT
from toolkit.config.sections import DEVICES, PRECISIONS, check_choice, check_distinct_files, require

WEIGHTS = ("auto", "trained", "average")


@dataclass(frozen=True, kw_only=True)
class ValidateConfig:
    POSITIONAL: ClassVar[str] = "dirs"

    dirs: list[str] = field(default_factory=list)
    """Folders of the checkpoints' vocabulary that toolkit-preprocess or fairseq-preprocess wrote;
    of shards, as in a:b, the first that has the split."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, whose best checkpoint is meant; each is evaluated."""
    weights: str = "auto"
    """auto, trained or average. auto is the moving average where the run kept one
    (--training.ema-decay), as its own validation was; trained is the weights themselves."""
    valid_subset: str = "valid"
    """Splits to evaluate on, separated by commas."""
    results_path: str | None = None
    """File to write all figures to, as one JSON object: checkpoint, split, figure."""
    predictions: str | None = None
    """File to write the answers to. pos_tagging: the split's own text with the tags that are
    predicted in place of its own, everything else byte for byte; of a split of several files, a
    folder for them. glue: a table, or a .zip to be submitted. squad: JSON of ids and texts; with a
    folder the n-best answers too. multiple_choice: RACE's letters as JSON, SWAG's labels as csv.
    translation: a line for each pair."""
    json: str | None = None
    """File to write the figures to as JSON lines; - for standard output, on which nothing else
    is then written."""
    max_tokens: int | None = None
    """Most tokens in one batch, padding included."""
    batch_size: int | None = None
    """Most examples in one batch. Without this and max_tokens, 32 on a CPU, and 16,384 tokens on a
    GPU; batches that do not fit into memory are halved."""
    precision: str = "auto"
    """auto, fp32, bf16 or fp16. auto is bf16 where the hardware is fast at it, else fp32."""
    device: str = "auto"
    """auto, cpu or cuda. auto is cuda where there is one."""
    num_workers: int = 1
    """Processes that prepare batches ahead; 0 prepares them in between."""

    def __post_init__(self) -> None:
        require(bool(self.dirs), "a data folder must be given, but none is. Name one or more.")
        require(bool(self.path), "a checkpoint must be given, but none is. Pass --path.")
        check_choice("weights", self.weights, WEIGHTS)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("device", self.device, DEVICES)
        for name in ("max_tokens", "batch_size"):
            value = getattr(self, name)
            require(
                value is None or value > 0,
                f"{name} must be at least 1, but is {value}. Leave it out for no bound.",
            )
        require(
            self.num_workers >= 0, f"num_workers must not be negative, but is {self.num_workers}."
        )
        splits = self.valid_subset.strip(", ")
        require(
            bool(splits), "valid_subset must name a split, but is empty. Leave it out for valid."
        )
        require(
            self.predictions is None or (len(self.path) == 1 and "," not in splits),
            f"predictions must be those of one checkpoint on one split, but are asked of "
            f"{len(self.path)} on {splits}. Run toolkit-validate for each.",
        )
        figures = None if self.json == "-" else self.json
        written = {"--results-path": self.results_path, "--predictions": self.predictions}
        check_distinct_files([("--json", figures), *written.items()])
