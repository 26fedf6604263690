"""Options of toolkit-generate, a class for each mode, and of toolkit-validate with surprisals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import OWN_TASK
from toolkit.config.declared import (
    ADVANCED,
    MULTI_WORD,
    NO_SPLIT,
    Above,
    AtLeast,
    AtMost,
    Limit,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveInt,
    Size,
    Tokens,
)
from toolkit.config.sections import (
    BleuTokenizer,
    DeviceOptions,
    OutputOptions,
    PrecisionOptions,
    Scoring,
    WeightsOptions,
)

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
    temperature: Annotated[float, AtLeast(1e-4), AtMost(1e4)] = 1.0
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
        if self.max_len_a == 0 and self.min_len > max(1, self.max_len_b):
            raise ToolkitError(
                f"min_len must be at most max_len_b ({self.max_len_b}), but is {self.min_len}."
            )
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.path) > 1 and not isinstance(self, TextGenerationConfig):
            raise ToolkitError(
                "--path must name one checkpoint: only text generation uses ensembles."
            )


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options, title="scores"):
    """Options of commands that compare texts with references."""

    eval_bleu_tokenize: BleuTokenizer = "auto"
    """sacreBLEU's tokenization for BLEU. auto: its choice for the target language: zh, ja-mecab or
    ko-mecab, else 13a."""


@dataclass(frozen=True, kw_only=True)
class TextGenerationConfig(
    ScoreOptions, SearchConfig, PrecisionOptions, GenerationOptions, positional="dirs"
):
    """Options of encoder-decoder and language models; several checkpoints form an ensemble."""

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
class TranslateConfig(TextGenerationConfig, word="translate"):
    """Options of toolkit-generate translate."""

    print_alignment: Literal["none", "hard", "soft"] = "none"
    """Print the alignment of the last layer, the mean of its heads. hard: the source token with the
    most attention, as pairs of indices from 0; soft: all weights, in JSON."""


@dataclass(frozen=True, kw_only=True)
class ContinueConfig(TextGenerationConfig, word="continue"):
    """Options of toolkit-generate continue."""


@dataclass(frozen=True, kw_only=True)
class FillMaskConfig(GenerationOptions, word="fill-mask"):
    """Options of toolkit-generate fill-mask."""

    top: Size = 5
    """Number of tokens per [MASK], or of positions per word, to print."""


@dataclass(frozen=True, kw_only=True)
class SurprisalOptions(Options, title="surprisal"):
    """Options of every command that measures surprisal."""

    scoring: Scoring = "auto"
    """What predicts a token. log_likelihood: those before it, the only one of causal models.
    within_word_left_to_right: all tokens of the text but the later ones of its word, the default
    of masked models (Kauf and Ivanova 2023). pseudo_log_likelihood: all other tokens.
    left_to_right: those before it and, for masked models, three masks in place of all others."""
    context: PositiveInt | None = None
    """Read texts in windows of this many tokens, at most as many as the model reads: of a causal
    model, each starts half a window before its first new token; of a masked model, each is centered
    on the token. Default: texts as a whole; longer ones than the model reads get a note."""
    frequencies: str | None = None
    """File with a word and its count in each line, for the logarithm of the frequency."""


@dataclass(frozen=True, kw_only=True)
class SurprisalConfig(SurprisalOptions, GenerationOptions, word="surprisal"):
    """Options of toolkit-generate surprisal."""


@dataclass(frozen=True, kw_only=True)
class OrderConfig(FillMaskConfig, word="order"):
    """Options of toolkit-generate order."""


@dataclass(frozen=True, kw_only=True)
class ScoreConfig(ScoreOptions, OutputOptions, positional="files"):
    """Options of toolkit-generate score."""

    target_lang: str = ""
    """Language of the files, such as zh, for the choice of --eval-bleu-tokenize."""

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """SYSTEM and REFERENCE: two text files (also .gz, .xz, .zst)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.files) != 2:
            raise ToolkitError(
                f"toolkit-generate score needs two files, SYSTEM and REFERENCE; "
                f"{len(self.files)} are given."
            )


@dataclass(frozen=True, kw_only=True)
class ReadingTimesConfig(
    SurprisalOptions,
    WeightsOptions,
    DeviceOptions,
    OutputOptions,
    required={
        "files": "Name a table of reading times, before --path.",
        "path": "--path is required: the checkpoints to evaluate.",
    },
    positional="files",
):
    """Options of toolkit-validate --task reading_times."""

    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Tables (.csv, .tsv or JSON lines) with the columns sentence, word, context_length (the index
    of the word, from 0), measures, and log_frequency or Subtlex_log10 unless --frequencies is
    given."""
    task: Annotated[Literal["reading_times"], OWN_TASK] = field(
        default="reading_times", metadata=ADVANCED
    )
    """Evaluate with reading times. Without this option, checkpoints are evaluated with their own
    task."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoints, or save folders, for their best one, to evaluate."""
    measures: list[str] = field(default_factory=list)
    """Columns to predict. Default: those of the BabyLM challenge that the table has: RTfirstfix,
    RTfirstpass, RTgopast, RTrightbound, self_paced_reading_time, ELAN, LAN, N400, P600, EPNP, PNP.
    """
    max_tokens: Tokens = 4096
    """Maximum tokens per batch."""
    results_path: str | None = None
    """File for the results as JSON lines, one per checkpoint."""


@dataclass(frozen=True, kw_only=True)
class AcquisitionConfig(
    SurprisalOptions,
    WeightsOptions,
    DeviceOptions,
    OutputOptions,
    required={
        "files": "Name a table of words in sentences, before --path.",
        "path": "--path is required: the save folders whose checkpoints are evaluated.",
    },
    positional="files",
):
    """Options of toolkit-validate --task age_of_acquisition."""

    all_checkpoints: ClassVar[bool] = True
    files: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Tables (.csv, .tsv or JSON lines) with the columns sentence, word, context_length (the index
    of the word, from 0) and --age. The surprisal of a word is its mean over its rows. Or
    cdi_childes.json of the BabyLM challenge, whose words are read alone: their tokens are predicted
    as by --task completions."""
    task: Annotated[Literal["age_of_acquisition"], OWN_TASK] = field(
        default="age_of_acquisition", metadata=ADVANCED
    )
    """Estimate when a run learned each word: how many words it had seen when its surprisal crossed
    half way from chance to its last value, by a sigmoid."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Save folders of runs that counted words, with four or more checkpoints (--save-at-words)."""
    age: str = "age"
    """Column with the age at which people learn the word; empty if it is unknown."""
    max_tokens: Tokens = 4096
    """Maximum tokens per batch."""
    results_path: str | None = None
    """File to which the surprisals of each checkpoint are added, as JSON lines; those that it has
    are not computed again."""
