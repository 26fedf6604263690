"""Options of toolkit-validate, on data folders and on minimal pairs, and of toolkit-predict."""

from __future__ import annotations

from dataclasses import dataclass, field
from os.path import dirname, realpath
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.command import COMPRESSION
from toolkit.config.declared import (
    ADVANCED,
    MULTI_WORD,
    NO_SPLIT,
    Hint,
    PositiveInt,
    Processes,
    Tokens,
)
from toolkit.config.sections import (
    BatchOptions,
    OutputOptions,
    PrecisionOptions,
    WeightsOptions,
    check_distinct_files,
)
from toolkit.config.values import Overrides


@dataclass(frozen=True, kw_only=True)
class ValidateConfig(
    WeightsOptions,
    BatchOptions,
    PrecisionOptions,
    OutputOptions,
    required={
        "dirs": "Name a data folder to evaluate on, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
):
    """Options of toolkit-validate."""

    POSITIONAL: ClassVar[str] = "dirs"

    dirs: list[str] = field(default_factory=list)
    """Data folders with the vocabulary of the checkpoints. Of shards, as in a:b, the first one that
    has the split."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best one, to evaluate."""
    valid_subset: str = "valid"
    """Splits to evaluate on, separated by commas."""
    results_path: str | None = None
    """File for all metrics as JSON: checkpoint, split, metric."""
    predictions: str | None = None
    """File for the predictions. pos_tagging: the split's own text with predicted tags, all else
    byte for byte (a folder, for a split of several files). span_tagging: the same with both tags,
    for conlleval. glue: a table, or a .zip to submit. squad: JSON of ids and texts (a folder also
    gets the n-best answers). multiple_choice: RACE's letters as JSON, SWAG's labels as CSV.
    translation: a line per pair."""
    num_workers: Processes = 1
    """Processes that prepare batches (0: the main process)."""
    task: Overrides = field(default_factory=Overrides)

    def __post_init__(self) -> None:
        super().__post_init__()
        splits = self.valid_subset.strip(", ")
        if not splits:
            raise ToolkitError("--valid-subset must name a split, but is empty.")
        if self.predictions is not None and not self.is_single:
            raise single_predictions_error()
        files = {"--results-path": self.results_path, "--predictions": self.predictions}
        check_distinct_files({"--json": self.json, **files})

    @property
    def is_single(self) -> bool:
        """Whether one checkpoint is evaluated on one split with one value of every option."""
        several = [self.path, *self.task.values.values()]
        return max(map(len, several)) == 1 and "," not in self.valid_subset.strip(", ")


def single_predictions_error() -> ToolkitError:
    """The error for several evaluations whose predictions would replace each other."""
    return ToolkitError(
        "--predictions requires one checkpoint, one split and one value of each option of the "
        "task. Run toolkit-validate for each."
    )


MINIMAL_PAIRS_TASK: Literal["minimal_pairs"] = "minimal_pairs"
OWN_TASK = Hint("Omit --task: checkpoints are evaluated with the task that they were trained with.")
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
    task: Annotated[Literal["minimal_pairs"], OWN_TASK] = field(
        default=MINIMAL_PAIRS_TASK, metadata=ADVANCED
    )
    """Without this option, checkpoints are evaluated with their own task."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best one, to evaluate."""
    scoring: Scoring = "auto"
    """Score of a sentence. pseudo_log_likelihood: each token is masked in turn (Salazar et al.
    2020). within_word_left_to_right: the rest of its word is masked too (Kauf and Ivanova 2023).
    log_likelihood: each token from those before it. auto: pseudo_log_likelihood for masked models,
    log_likelihood for language models."""
    normalization: Normalization = "none"
    """Length normalization. tokens: the mean over the tokens of a sentence instead of the sum."""
    limit: PositiveInt | None = None
    """Maximum number of pairs per paradigm: the first ones."""
    max_tokens: Tokens | None = None
    """Maximum tokens per batch. Default: 4,096, or 32,768 on a GPU."""
    paradigms: bool = False
    """Print a row for each paradigm, not only for each phenomenon."""
    results_path: str | None = None
    """File for the results as JSON lines, which toolkit-plot reads."""
    predictions: str | None = None
    """File for the scores of each pair as JSON lines."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.predictions is not None and len(self.path) > 1:
            raise single_predictions_error()
        outputs = {
            **{"--json": self.json, "--results-path": self.results_path},
            "--predictions": self.predictions,
        }
        check_distinct_files(outputs)
        inputs = {realpath(name) for name in self.files}
        for option, file in outputs.items():
            path = realpath(file or "-")
            if path in inputs or (option == "--predictions" and file and dirname(path) in inputs):
                raise ToolkitError(
                    f"{option} must be outside of the files and folders of sentence pairs, but is "
                    f"{file}. Write it to another folder."
                )


FORMAT_BY_ENDING = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".conllu": "conllu"}
"""Ending of a file -> its format; other files are plain text, except those of OTHER_FORMATS."""
OTHER_FORMATS = (".csv", ".parquet", ".arrow")


@dataclass(frozen=True, kw_only=True)
class PredictConfig(
    WeightsOptions,
    BatchOptions,
    PrecisionOptions,
    OutputOptions,
    required={"path": "--path is required: a checkpoint or a save folder."},
):
    """Options of toolkit-predict."""

    path: str = ""
    """Checkpoint, or a save folder, whose best checkpoint is used."""
    input: str = "-"
    """File with the items (also .gz, .xz, .zst), one per line, or sentences of CoNLL-U; - reads
    standard input."""
    output: str = "-"
    """File for the predictions, one line per input line; - writes to standard output."""
    input_format: Literal["auto", "text", "tsv", "jsonl", "conllu"] = "auto"
    """text: the parts of an item separated by tabs, without names. tsv: a table with names in its
    first line. jsonl: JSON lines. conllu: CoNLL-U, for taggers. auto: by the ending of the
    file, text for standard input."""
    output_format: Literal["auto", "text", "tsv", "jsonl", "conllu"] = "auto"
    """The same formats. auto: by the ending of --output, that of the input for standard output."""
    text_columns: str = ""
    """Names of the columns, or JSON keys, that the task reads, separated by commas, if they are not
    its own, such as sentence1,sentence2."""
    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a malformed line. error: stop and name it. skip: report it, and answer it with
    an empty line."""
    buffer_size: PositiveInt = field(default=1000, metadata=ADVANCED)
    """Lines to read and sort by length before answering. Lines typed at a terminal are answered one
    by one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        files = {"--input": self.input, "--output": self.output, "--json": self.json}
        check_distinct_files(files)
        if (self.resolved_output == "conllu") > (self.resolved_input == "conllu"):
            raise ToolkitError(
                "--output-format conllu requires input in CoNLL-U. Choose text, tsv or jsonl."
            )
        if self.text_columns and self.resolved_input in ("text", "conllu"):
            raise ToolkitError(
                f"--text-columns requires a table or JSON lines, but the input format is "
                f"{self.resolved_input}. Add --input-format tsv or jsonl."
            )

    @property
    def resolved_input(self) -> str:
        """The input format, with auto resolved."""
        if self.input_format != "auto":
            return self.input_format
        return format_of("input", self.input)

    @property
    def resolved_output(self) -> str:
        """The output format, with auto resolved."""
        if self.output_format != "auto":
            return self.output_format
        return self.resolved_input if self.output == "-" else format_of("output", self.output)


def format_of(option: str, path: str) -> str:
    """The format that the ending of a file means."""
    name = Path(path)
    ending = (name.with_suffix("") if name.suffix in COMPRESSION else name).suffix
    if ending in OTHER_FORMATS:
        raise ToolkitError(
            f"--{option} {path}: toolkit-predict reads and writes plain text, TSV, JSON lines and "
            f"CoNLL-U, not {ending}. Use one of these, or name the format with --{option}-format."
        )
    return FORMAT_BY_ENDING.get(ending, "text")
