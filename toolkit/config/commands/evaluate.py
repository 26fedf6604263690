"""Options of toolkit-validate, toolkit-predict and toolkit-generate."""

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
    Above,
    AtLeast,
    AtMost,
    Hint,
    Limit,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFloat,
    PositiveInt,
    Processes,
    Size,
    Tokens,
)
from toolkit.config.sections import (
    BatchOptions,
    DeviceOptions,
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


MAX_LENGTH_PENALTY = 50.0
"""Larger exponents of a length overflow."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig(Options, title="search"):
    """Options of beam search and sampling."""

    beam: Size = 5
    """Beam size (1: greedy search), or number of samples."""
    nbest: PositiveInt = 1
    """Hypotheses to print per sentence, at most --beam."""
    lenpen: Annotated[float, AtLeast(-MAX_LENGTH_PENALTY), AtMost(MAX_LENGTH_PENALTY)] = 1.0
    """Length penalty: scores are divided by length ** lenpen. Above 1 favors long hypotheses."""
    max_len_a: Annotated[float, AtLeast(0), Limit(1000)] = 0.0
    """Maximum length of the output, a x + b, for a source or prompt of length x: the factor a."""
    max_len_b: Annotated[int, AtLeast(0), Limit(2**20)] = 200
    """Maximum length of the output: the constant b."""
    min_len: NonNegativeInt = 1
    """Minimum length of a hypothesis, without end of sentence."""
    no_repeat_ngram_size: NonNegativeInt = 0
    """Forbid repeated n-grams of this size (0: allow them)."""
    sampling: bool = False
    """Sample instead of beam search; so do the next three options."""
    sampling_topk: NonNegativeInt = 0
    """Top-k sampling: sample from the k most probable tokens (0: all)."""
    sampling_topp: Annotated[float, Above(0), AtMost(1)] = 1.0
    """Nucleus (top-p) sampling: sample from the smallest set of tokens that have this probability
    in total."""
    temperature: PositiveFloat = 1.0
    """Temperature of sampling: divides the logits; below 1 sharpens the distribution."""
    seed: int = 1
    """Random seed of sampling. The samples of a sentence do not depend on its batch."""
    diverse_beam_groups: PositiveInt = field(default=1, metadata=ADVANCED)
    """Diverse beam search (Vijayakumar et al. 2018): number of groups; divides the beam size."""
    diverse_beam_strength: NonNegativeFloat = field(default=0.5, metadata=ADVANCED)
    """Diverse beam search: penalty on a token's log-probability for each hypothesis of the
    previous groups that has it at the same position."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nbest > self.beam:
            raise ToolkitError(f"nbest must be at most beam ({self.beam}), but is {self.nbest}.")
        if self.beam % self.diverse_beam_groups:
            raise ToolkitError(
                f"beam must be a multiple of diverse_beam_groups, but {self.beam} is not one of "
                f"{self.diverse_beam_groups}."
            )

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn at random."""
        limited = self.sampling_topk > 0 or self.sampling_topp < 1 or self.temperature != 1
        return self.sampling or limited

    def max_length(self, length: int) -> int:
        """Maximum number of tokens of a hypothesis for a source of this length."""
        return int(self.max_len_a * length + self.max_len_b)


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(
    WeightsOptions,
    DeviceOptions,
    OutputOptions,
    title="input and output",
    required={"path": "--path is required: a checkpoint or a save folder."},
):
    """Options of every mode with a model."""

    mode: ClassVar[str]
    """First word after toolkit-generate."""

    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoint, or a save folder, whose best checkpoint is used."""
    task: str = field(default="", metadata=ADVANCED)
    """Task that the checkpoint must have been trained on."""
    input: str = "-"
    """Text file (also .gz, .xz, .zst), one sentence per line; - reads standard input."""
    results_path: str | None = None
    """File for the results as JSON lines, in addition to printing them."""
    buffer_size: PositiveInt = field(default=1000, metadata=ADVANCED)
    """Lines to read and sort by length before answering. Lines typed at a terminal are answered one
    by one."""
    max_tokens: Tokens = 4096
    """Maximum number of tokens per batch, including padding. Longer lines get a note, no output."""


@dataclass(frozen=True, kw_only=True)
class TextGenerationConfig(SearchConfig, PrecisionOptions, GenerationOptions):
    """Options of encoder-decoder and language models; several checkpoints form an ensemble."""

    POSITIONAL: ClassVar[str] = "dirs"

    dirs: list[str] = field(default_factory=list)
    """Data folders whose split --gen-subset is the input."""
    gen_subset: str = "test"
    """Splits of the data folders, separated by commas. They are scored together."""
    batch_size: Size = 64
    """Maximum number of sentences per batch."""
    prefixes: bool = False
    """Input lines have, after a tab, the start of their hypotheses."""
    prefix_size: NonNegativeInt = 0
    """With data folders, start each hypothesis with the first N tokens of its reference, or
    continue the first N tokens of each item (0: all of it)."""
    score_reference: bool = False
    """Print the log-probabilities of the references, generate nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dirs and self.input != "-":
            raise ToolkitError("--input cannot be combined with data folders.")
        if not self.dirs and self.gen_subset != "test":
            raise ToolkitError("--gen-subset requires a data folder.")
        if not self.gen_subset.strip(" ,"):
            raise ToolkitError(f"--gen-subset must name a split, but is {self.gen_subset!r}.")


@dataclass(frozen=True, kw_only=True)
class TranslateConfig(TextGenerationConfig):
    """Options of toolkit-generate translate."""

    mode = "translate"

    print_alignment: Literal["none", "hard", "soft"] = "none"
    """Print the alignment of the last layer, the mean of its heads. hard: the source token with the
    most attention, as pairs of indices from 0; soft: all weights, in JSON."""


@dataclass(frozen=True, kw_only=True)
class ContinueConfig(TextGenerationConfig):
    """Options of toolkit-generate continue."""

    mode = "continue"


@dataclass(frozen=True, kw_only=True)
class FillMaskConfig(GenerationOptions):
    """Options of toolkit-generate fill-mask."""

    mode = "fill-mask"

    top: Size = 5
    """Number of tokens per [MASK], or of positions per word, to print."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.path) > 1:
            raise ToolkitError(
                "--path must name one checkpoint: only text generation uses ensembles."
            )


@dataclass(frozen=True, kw_only=True)
class OrderConfig(FillMaskConfig):
    """Options of toolkit-generate order."""

    mode = "order"


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(OutputOptions):
    """Options of toolkit-generate score."""

    POSITIONAL: ClassVar[str] = "files"

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """SYSTEM and REFERENCE: two text files (also .gz, .xz, .zst)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.files) != 2:
            raise ToolkitError(
                f"toolkit-generate score needs two files, SYSTEM and REFERENCE; "
                f"{len(self.files)} are given."
            )
