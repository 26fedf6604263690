"""Options of toolkit-validate --task minimal_pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import PositiveInt, Tokens
from toolkit.config.option_groups import (
    OutputOptions,
    PrecisionOptions,
    WeightsOptions,
    check_distinct_files,
)
from toolkit.config.options import ADVANCED, MULTI_WORD, NO_SPLIT

TASK = "minimal_pairs"
Scoring = Literal["auto", "pseudo_log_likelihood", "within_word_left_to_right", "log_likelihood"]
Normalization = Literal["none", "tokens"]


@dataclass(frozen=True, kw_only=True)
class MinimalPairsConfig(
    WeightsOptions,
    PrecisionOptions,
    OutputOptions,
    required={
        "files": "Name files of sentence pairs, or a folder of them, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
):
    """Options of toolkit-validate --task minimal_pairs."""

    POSITIONAL: ClassVar[str] = "files"

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Files of sentence pairs: JSON lines with sentence_good and sentence_bad, as in BLiMP, or two
    columns separated by a tab, the better sentence first. A folder stands for its .jsonl and .tsv
    files. No preprocessing is needed."""
    task: str = field(default=TASK, metadata=ADVANCED)
    """minimal_pairs. Without this option, checkpoints are evaluated with their own task."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best checkpoint. Each is evaluated."""
    scoring: Scoring = "auto"
    """Score of a sentence. pseudo_log_likelihood: each token is masked in turn (Salazar et al.
    2020). within_word_left_to_right: the rest of its word is masked too (Kauf and Ivanova 2023).
    log_likelihood: each token from those before it. auto: pseudo_log_likelihood for masked models,
    log_likelihood for language models."""
    normalization: Normalization = "none"
    """Length normalization. tokens: the mean over the tokens of a sentence instead of the sum."""
    limit: PositiveInt | None = None
    """Maximum number of pairs per paradigm, the first ones, for a quick estimate."""
    max_tokens: Tokens | None = None
    """Maximum number of tokens per batch. Default: 4,096, or 32,768 on a GPU."""
    paradigms: bool = False
    """Print a row for each paradigm, not only for each phenomenon."""
    results_path: str | None = None
    """File for the results: a line of JSON per checkpoint, which toolkit-plot reads."""
    predictions: str | None = None
    """File for the scores of each pair as JSON lines."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task != TASK:
            raise ToolkitError(
                f"--task of toolkit-validate must be {TASK}, but is {self.task}. Omit it: "
                f"checkpoints are evaluated with the task that they were trained with."
            )
        if self.predictions is not None and len(self.path) > 1:
            raise ToolkitError(
                f"--predictions requires one checkpoint, but there are {len(self.path)}. Run "
                f"toolkit-validate for each."
            )
        metrics = None if self.json == "-" else self.json
        files = {"--results-path": self.results_path, "--predictions": self.predictions}
        outputs = [("--json", metrics), *files.items()]
        check_distinct_files(outputs)
        for option, file in outputs:
            self.check_is_no_input(option, file)

    def check_is_no_input(self, option: str, file: str | None) -> None:
        """An output must not replace pairs, nor be read as pairs the next time."""
        if file is None:
            return
        path, inputs = Path(file).resolve(), [Path(name).resolve() for name in self.files]
        if path in inputs or (option == "--predictions" and path.parent in inputs):
            raise ToolkitError(
                f"{option} must be outside of the files and folders of sentence pairs, but is "
                f"{file}. Write it to another folder."
            )
