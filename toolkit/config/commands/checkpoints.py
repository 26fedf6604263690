"""Options of the commands on checkpoints: validate, predict, average, inspect and convert."""

from __future__ import annotations

from dataclasses import dataclass, field
from os.path import dirname, isdir, realpath
from pathlib import Path
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.command import COMPRESSION
from toolkit.config.declared import (
    ADVANCED,
    MULTI_WORD,
    NO_SPLIT,
    Above,
    Limit,
    NonNegativeInt,
    Options,
    PositiveInt,
    Processes,
    Tokens,
)
from toolkit.config.sections import (
    BatchOptions,
    DeviceOptions,
    OutputOptions,
    PrecisionOptions,
    Scoring,
    WeightsOptions,
)
from toolkit.config.values import Overrides


@dataclass(frozen=True, kw_only=True)
class AverageConfig(
    OutputOptions,
    required={
        "paths": "Name the checkpoints to average, or a save folder with --last.",
        "output": "--output is required: a folder that does not exist yet.",
    },
    positional="paths",
):
    """Options of toolkit-average."""

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
    positional="paths",
):
    """Options of toolkit-inspect."""

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
class ConversionOptions(OutputOptions, positional="paths"):
    """Options of every direction of toolkit-convert."""

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
    extend_vocabulary_from: str | None = None
    """Text of a domain, a file or a folder, whose frequent words extend the vocabulary: each new
    subword merges old ones, and begins with the mean of their rows."""
    extend_by: PositiveInt | None = None
    """Number of subwords that --extend-vocabulary-from adds, or all that occur twice if fewer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.extend_vocabulary_from is None) != (self.extend_by is None):
            raise ToolkitError("--extend-vocabulary-from and --extend-by require each other.")


@dataclass(frozen=True, kw_only=True)
class ExportConfig(WeightsOptions, ConversionOptions):
    """Options of toolkit-convert export."""

    classes: Literal["auto", "native", "toolkit"] = "auto"
    """Classes that open the model. native: those of Transformers, such as BertForMaskedLM; toolkit:
    those of toolkit.huggingface, for every architecture; auto: native if they compute the same."""
    component: Literal["discriminator", "generator"] | None = None
    """Part of a model trained with --task rtd. Default: discriminator."""


@dataclass(frozen=True, kw_only=True)
class BabylmConfig(ExportConfig, positional="paths"):
    """Options of toolkit-convert babylm."""

    paths: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """SOURCE, the save folder of a run, and DESTINATION, a folder. What it has already is kept."""
    predictions: str | None = None
    """Folder that toolkit-validate --suite babylm-2025-full --predictions wrote for the final
    model."""
    results: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Files of toolkit-validate --results-path: of --suite babylm-2025-fast --all-checkpoints for
    the revisions, of --task age_of_acquisition on cdi_childes.json for ages, and of --suite
    babylm-2025-full for the model card."""
    fine_tuned: str | None = None
    """Save folder of toolkit-train --suite babylm-2025-glue."""


@dataclass(frozen=True, kw_only=True)
class OnnxConfig(WeightsOptions, ConversionOptions):
    """Options of toolkit-convert onnx."""

    batch: PositiveInt | None = None
    """Fixed number of rows in a batch. Default: any."""
    length: PositiveInt | None = None
    """Fixed number of tokens in a row. Default: any."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """Options of commands that evaluate the checkpoints of runs."""

    all_checkpoints: bool = False
    """Evaluate every checkpoint of the save folders, from the first to the last. Each result is a
    line that is added to the file of --results-path; those that it has are not computed again."""


@dataclass(frozen=True, kw_only=True)
class ValidateConfig(
    RunOptions,
    WeightsOptions,
    BatchOptions,
    PrecisionOptions,
    OutputOptions,
    required={
        "dirs": "Name a data folder to evaluate on, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
    positional="dirs",
):
    """Options of toolkit-validate."""

    dirs: list[str] = field(default_factory=list)
    """Data folders with the vocabulary of the checkpoints. Of shards, as in a:b, the first one that
    has the split."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best one, to evaluate."""
    valid_subset: str = "valid"
    """Splits to evaluate on, separated by commas."""
    results_path: str | None = None
    """File for all metrics as JSON: checkpoint, split, metric. With --all-checkpoints, JSON lines
    that toolkit-plot curve draws."""
    predictions: str | None = None
    """File for the predictions. pos_tagging: the split's own text with predicted tags, all else
    byte for byte (a folder, for a split of several files). span_tagging: the same with both tags,
    for conlleval. glue: a table, to submit. squad: JSON of ids and texts (a folder also
    gets the n-best answers). multiple_choice: RACE's letters as JSON, SWAG's labels as CSV.
    translation: a line per pair."""
    num_workers: Processes = 1
    """Processes that prepare batches (0: the main process)."""
    task: Overrides = field(default_factory=Overrides)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.valid_subset.strip(", "):
            raise ToolkitError("--valid-subset must name a split, but is empty.")
        if self.predictions is not None and not self.is_single:
            raise ToolkitError(ONE_EVALUATION)

    @property
    def is_single(self) -> bool:
        """Whether one checkpoint is evaluated on one split with one value of every option."""
        several = [self.path, *self.task.values.values()]
        one_split = "," not in self.valid_subset.strip(", ")
        return max(map(len, several)) == 1 and one_split and not self.all_checkpoints


ONE_EVALUATION = (
    "--predictions requires one checkpoint, one split and one value of each option of the task. "
    "Run toolkit-validate for each."
)
"""The error for several evaluations whose predictions would replace each other."""
MINIMAL_PAIRS_TASK: Literal["minimal_pairs"] = "minimal_pairs"
COMPLETIONS_TASK: Literal["completions"] = "completions"
OWN_TASK = "Omit --task: checkpoints are evaluated with the task that they were trained with."
Normalization = Literal["none", "tokens", "characters"]


@dataclass(frozen=True, kw_only=True)
class CompletionsConfig(
    RunOptions,
    WeightsOptions,
    PrecisionOptions,
    OutputOptions,
    required={
        "files": "Name files of sentence pairs or items, or a folder of them, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
    positional="files",
):
    """Options of toolkit-validate --task completions and --task minimal_pairs."""

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Files of items as published: BLiMP, its supplement and sets of its form, such as ZhoBLiMP and
    BLiMP-NL, MultiBLiMP, EWoK, entity tracking, COMPS, WUG, GlobalPIQA, LAMBADA, CLAMS, Zorro; a
    table with the columns prefix, option_1, option_2, answer; or two columns separated by a tab,
    the better sentence first. A folder stands for its files. No preprocessing is needed."""
    task: Annotated[Literal["completions", "minimal_pairs"], OWN_TASK] = field(
        default=COMPLETIONS_TASK, metadata=ADVANCED
    )
    """completions: which of several options is most probable; minimal_pairs: its case of two whole
    sentences. Without this option, checkpoints are evaluated with their own task."""
    suite: str = ""
    """babylm-2025-fast, babylm-2025-full, blimp or a YAML file: the sets to evaluate, how each is
    scored, and their order in the report. The one folder that is named has the files of all; sets
    that are missing or cannot be read are reported."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best one, to evaluate."""
    scoring: Scoring = "auto"
    """Score of an option. pseudo_log_likelihood: each token is masked in turn (Salazar et al.
    2020). within_word_left_to_right: the rest of its word is masked too (Kauf and Ivanova 2023).
    left_to_right: each token from those before it and three masks, as the BabyLM challenge does.
    log_likelihood: each token from those before it; for encoder-decoders, which read the prefix,
    that of the target. auto: pseudo_log_likelihood for masked models, log_likelihood for others."""
    scored: Literal["option", "text"] = "option"
    """Tokens that are scored: those of the option, given its prefix, or those of both."""
    normalization: Normalization = "none"
    """Length normalization: the score divided by the number of tokens that are scored, or of
    characters of the option."""
    ties: Literal["half", "first"] = "half"
    """half: options whose scores are equal up to rounding share the answer. first: the first of the
    highest scores in float32 is chosen, as by the evaluator of the BabyLM challenge, without a
    tolerance; add --precision fp32."""
    frequencies: str | None = None
    """File with a word and its count in each line, for a column with the accuracy of choosing the
    option whose words are the most frequent."""
    limit: PositiveInt | None = None
    """Maximum number of items per paradigm: the first ones."""
    max_tokens: Tokens | None = None
    """Maximum tokens per batch. Default: 4,096, or 32,768 on a GPU."""
    paradigms: bool = False
    """Print a row for each paradigm, not only for each phenomenon."""
    results_path: str | None = None
    """File for the results as JSON lines, which toolkit-plot reads."""
    predictions: str | None = None
    """File for the scores of each item as JSON lines; for a suite, a folder of one for each set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.predictions is not None and (len(self.path) > 1 or self.all_checkpoints):
            raise ToolkitError(ONE_EVALUATION)
        outputs = {
            **{"--json": self.json, "--results-path": self.results_path},
            "--predictions": self.predictions,
        }
        inputs = {realpath(name) for name in self.files}
        for option, file in outputs.items():
            path = realpath(file or "-")
            if path in inputs or (option == "--predictions" and file and dirname(path) in inputs):
                raise ToolkitError(
                    f"{option} must be outside of the files and folders of items, but is "
                    f"{file}. Write it to another folder."
                )


FORMAT_BY_ENDING = {
    **{".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".conllu": "conllu"},
    **{".parquet": "parquet", ".arrow": "arrow"},
}
"""Ending of a file -> its format; other files are plain text."""
PredictFormat = Literal[
    "auto", "text", "tsv", "csv", "jsonl", "parquet", "arrow", "dataset", "conllu"
]


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
    input_format: PredictFormat = "auto"
    """text: the parts of an item separated by tabs, without names. tsv, csv: a table with names in
    its first line. jsonl: JSON lines. dataset: a folder of Hugging Face's save_to_disk. conllu:
    CoNLL-U, for taggers. auto: by the ending of the file, text for standard input."""
    output_format: PredictFormat = "auto"
    """The same formats; rows keep the columns of the input. auto: by the ending of --output, that
    of the input for standard output."""
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
        return "dataset" if isdir(self.input) else format_of(self.input)

    @property
    def resolved_output(self) -> str:
        """The output format, with auto resolved."""
        if self.output_format != "auto":
            return self.output_format
        if self.output == "-":
            return self.resolved_input if self.reads_lines else "jsonl"
        is_folder = self.resolved_input == "dataset" and not Path(self.output).suffix
        return "dataset" if is_folder else format_of(self.output)

    @property
    def reads_lines(self) -> bool:
        """Whether the input is a stream of lines: other formats are read from a file."""
        return self.resolved_input not in ("parquet", "arrow", "dataset")


def format_of(path: str) -> str:
    """The format that the ending of a file means."""
    name = Path(path)
    ending = (name.with_suffix("") if name.suffix in COMPRESSION else name).suffix
    return FORMAT_BY_ENDING.get(ending, "text")
