"""Options of toolkit-generate: what a trained model makes of new text."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import isfinite
from typing import ClassVar

from toolkit.config.names import to_dashes
from toolkit.config.options import MULTI_WORD, NO_SPLIT, field_default
from toolkit.config.sections import DEVICES, PRECISIONS, check_choice, require

MAX_LENGTH_PENALTY = 50.0
"""Higher powers of the length of a text could not be told as numbers."""


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    beam: int = 5
    """Hypotheses that are followed at once for each sentence, at least 1; 1 takes the most probable
    symbol every time. With --sampling, how many are drawn."""
    nbest: int = 1
    """Hypotheses to give for each sentence, at most --beam."""
    lenpen: float = 1.0
    """Power of its length by which the log-probability of a hypothesis is divided. Above 1 favors
    long ones, 0 divides by nothing."""
    max_len_a: float = 0.0
    """a of a x + b, the most symbols of a hypothesis; x is the length of the source, or of a
    language model's prompt, which itself is not counted."""
    max_len_b: int = 200
    """b of --max-len-a."""
    min_len: int = 1
    """Fewest symbols of a hypothesis, its end not counted."""
    no_repeat_ngram_size: int = 0
    """Symbols in a row that must not come twice in a hypothesis; 0 allows everything."""
    sampling: bool = False
    """Draw symbols by their probability instead of searching for the best."""
    sampling_topk: int = 0
    """Draw only from so many of the most probable symbols; 0 for all."""
    sampling_topp: float = 1.0
    """Draw only from the fewest symbols that have this probability together, 0 to 1."""
    temperature: float = 1.0
    """What scores are divided by before symbols are drawn: below 1 makes the probable ones more
    so."""
    seed: int = 1
    """Seed of the draws. A sentence gets the same ones, whatever else is in its batch."""
    diverse_beam_groups: int = 1
    """Groups that the beam is parted into, each of which avoids what those before it write at the
    same place (Vijayakumar et al. 2018). Divides --beam."""
    diverse_beam_strength: float = 0.5
    """By how much a symbol's log-probability is lowered for each hypothesis of the groups before
    that writes it."""

    def __post_init__(self) -> None:
        for name in ("beam", "nbest", "diverse_beam_groups"):
            value = getattr(self, name)
            require(value > 0, f"{name} must be at least 1, but is {value}.")
        for name in ("min_len", "no_repeat_ngram_size", "sampling_topk", "max_len_a", "max_len_b"):
            value = getattr(self, name)
            require(value >= 0, f"{name} must not be negative, but is {value}.")
        for name in ("max_len_a", "temperature", "diverse_beam_strength"):
            value = getattr(self, name)
            require(isfinite(value), f"{name} must be a finite number, but is {value}.")
        require(
            abs(self.lenpen) <= MAX_LENGTH_PENALTY,
            f"lenpen must lie between -{MAX_LENGTH_PENALTY:g} and {MAX_LENGTH_PENALTY:g}, but is "
            f"{self.lenpen}.",
        )
        require(
            self.nbest <= self.beam,
            f"nbest must be at most beam, but is {self.nbest} with beam {self.beam}. Raise --beam.",
        )
        require(self.temperature > 0, f"temperature must be above 0, but is {self.temperature}.")
        require(
            0 < self.sampling_topp <= 1,
            f"sampling_topp must lie between 0 and 1, but is {self.sampling_topp}.",
        )
        require(
            self.beam % self.diverse_beam_groups == 0,
            f"beam must be a multiple of diverse_beam_groups, but {self.beam} is none of "
            f"{self.diverse_beam_groups}. Change one of them.",
        )
        self._check_unused_options()

    def _check_unused_options(self) -> None:
        """An option that would change nothing is a misunderstanding."""
        drawn = (self.sampling_topk, self.sampling_topp, self.temperature) != (0, 1.0, 1.0)
        require(
            self.sampling or not drawn,
            "sampling must be on where sampling_topk, sampling_topp or temperature is given, but "
            "is off. Add --sampling.",
        )
        require(
            self.diverse_beam_groups > 1 or self.diverse_beam_strength == 0.5,
            f"diverse_beam_groups must be 2 or more where diverse_beam_strength is given, but is "
            f"{self.diverse_beam_groups}. Raise it.",
        )
        require(
            not (self.sampling and self.diverse_beam_groups > 1),
            f"diverse_beam_groups must be 1 with sampling, but is {self.diverse_beam_groups}. "
            f"Leave one of them out.",
        )

    def max_length(self, length: int) -> int:
        """The most symbols of a hypothesis for a source of so many."""
        return int(self.max_len_a * length + self.max_len_b)


ALIGNMENTS = ("none", "hard", "soft")


@dataclass(frozen=True, kw_only=True)
class GenerateConfig(SearchConfig):
    POSITIONAL: ClassVar[str] = "dirs"

    dirs: list[str] = field(default_factory=list)
    """Folders of toolkit-preprocess whose split --gen-subset is translated or written on, in place
    of --input."""
    path: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Checkpoint to use; a save folder means its best one. Of several that write, the mean of their
    probabilities counts."""
    weights: str = "auto"
    """auto, trained or average. auto is the moving average where the run kept one
    (--training.ema-decay); trained is the weights themselves."""
    task: str = ""
    """Task of the checkpoint, such as mlm. If given, a checkpoint of another one is refused."""
    input: str = "-"
    """File of text (also .gz, .xz), one sentence a line: to translate, to write on, or with [MASK]
    where a token is missing; - reads stdin."""
    gen_subset: str = "test"
    """Splits of the folders to go through one after the other, separated by commas; they are scored
    together."""
    order: bool = False
    """Put words in order instead: of each line those in {braces}, or all where none is, go where
    a model trained by the task mpm would have them."""
    top: int = 5
    """Tokens to give for each [MASK], or positions for each word, most probable first."""
    prefix_size: int = 0
    """Begin each hypothesis with so many symbols of its reference. With a language model and a
    folder: write on from so many of each item, 0 for all."""
    prefixes: bool = False
    """Each line of the input has, behind a tab, text that its hypothesis must begin with."""
    score_reference: bool = False
    """Write nothing, but tell how probable the references are: those of the folder, what stands
    behind a tab in each line of the input, or the lines themselves for a language model."""
    print_alignment: str = "none"
    """none, hard (the source's token that each symbol looked at most, as pairs counted from 0) or
    soft (in JSON, all shares); of the last layer, the mean of its heads."""
    score: list[str] = field(default_factory=list, metadata={**NO_SPLIT, **MULTI_WORD})
    """Two files, translations and references (also .gz, .xz), line by line: tell BLEU, chrF and
    TER, and stop."""
    results_path: str | None = None
    """File to write the answers to as JSON lines, besides showing them; what was written is put
    beside it as aligned text too, in a file that ends in .txt."""
    json: str | None = None
    """File to write answers and counts to as JSON lines; - for standard output, on which nothing
    else is then written."""
    buffer_size: int = 1000
    """Lines to read before answering; they are sorted by length, which is faster. A person
    typing is answered line by line."""
    max_tokens: int = 4096
    """Most tokens that go through the model together, padding included; a longer line is
    answered with a note."""
    batch_size: int = 64
    """Most sentences that are written together."""
    precision: str = "auto"
    """auto, fp32, bf16 or fp16, of models that write. auto is bf16 where the hardware is fast at
    it, else fp32."""
    device: str = "auto"
    """auto, cpu or cuda. auto is cuda where there is one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score:
            require(
                len(self.score) == 2,
                f"--score must name two files, translations and references, but names "
                f"{len(self.score)}. Write --score SYSTEM REFERENCE.",
            )
            return
        require(bool(self.path), "--path must name a checkpoint, but is missing. Give its folder.")
        for name in ("top", "buffer_size", "max_tokens", "batch_size"):
            value = getattr(self, name)
            require(value > 0, f"{name} must be at least 1, but is {value}.")
        require(
            self.prefix_size >= 0,
            f"prefix_size must not be negative, but is {self.prefix_size}.",
        )
        check_choice("weights", self.weights, ("auto", "trained", "average"))
        check_choice("device", self.device, DEVICES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("print_alignment", self.print_alignment, ALIGNMENTS)
        require(
            not (self.dirs and (self.prefixes or self.input != "-")),
            "--input and --prefixes must be left out where folders are given, but are not. Choose "
            "one source of text.",
        )
        require(
            not (self.score_reference and (self.prefixes or self.prefix_size)),
            "--score-reference must be without prefixes, for a reference is the whole, but is "
            "with one. Leave one of them out.",
        )
        require(
            any(name.strip() for name in self.gen_subset.split(",")),
            f"--gen-subset must name a split, but is {self.gen_subset!r}. Write --gen-subset test.",
        )
        self._check_unread_options()

    def _check_unread_options(self) -> None:
        """Options of folders without one, and of the search where nothing is written."""
        given = [
            f.name for f in fields(self) if getattr(self, f.name) != field_default(f, type(self))
        ]
        lines = "; what lines must begin with stands in them, with --prefixes"
        for name, instead in (("gen_subset", ""), ("prefix_size", lines)):
            require(
                bool(self.dirs) or name not in given,
                f"--{to_dashes(name)} must be with a folder of toolkit-preprocess, but none is "
                "given. "
                f"Name one{instead}.",
            )
        search = {f.name for f in fields(SearchConfig)} - {"lenpen", "beam"}
        for name in given:
            require(
                not (self.score_reference and name in search),
                f"--{to_dashes(name)} must be without --score-reference, which writes nothing. "
                "Leave "
                f"one of them out.",
            )
