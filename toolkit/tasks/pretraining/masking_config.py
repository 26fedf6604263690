"""Options of masking, shared by the pretraining tasks."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.config.sections import require
from toolkit.data.samples.masking import MASKING_STRATEGIES
from toolkit.data.samples.text_samples import SAMPLE_MODES

PAIR_MODES = ("chang", "electra")


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    tokens_per_sample: int = 128
    """Most tokens of one sentence, special symbols included; longer ones lose their tail."""
    sample_mode: str = "pairs"
    """What makes one sentence. pairs: two segments of whole items, as pairs says. blocks: a
    piece of the running text, whatever it cuts. documents: as blocks, but never across two
    documents."""
    pair_mode: str = "chang"
    """How samples pairs makes two segments of items. chang: items 1-2, 3-4, ...; token types all 0.
    electra: items of a document gathered to tokens_per_sample, now and then to fewer, and dealt
    out to two segments, now and then to one; token types 0 and 1 (Clark et al. 2020, code)."""
    masking: str = "bernoulli"
    """Which tokens are hidden. bernoulli: each on its own; exact: an exact share; whole_word:
    all pieces of a word; span: SpanBERT's runs of words; electra: as ELECTRA's generator."""
    mask_rate: float = 0.15
    """Share of tokens to predict, 0 to 1."""
    mask_token_rate: float | None = None
    """Share of these that is shown as [MASK]. By default 0.8, with electra 0.85."""
    random_token_rate: float | None = None
    """Share of these that is shown as a random token. By default 0.1, with electra 0."""
    span_max: int = 3
    """Longest run of words that span masking hides at a time."""
    span_p: float = 0.2
    """Parameter of the geometric law of these runs' lengths."""

    def __post_init__(self) -> None:
        require(
            self.tokens_per_sample > 3,
            f"task.tokens_per_sample must be at least 4, but is {self.tokens_per_sample}.",
        )
        for name, known in (
            ("sample_mode", SAMPLE_MODES),
            ("pair_mode", PAIR_MODES),
            ("masking", MASKING_STRATEGIES),
        ):
            value = getattr(self, name)
            require(
                value in known,
                f"task.{name} must be one of {', '.join(known)}, but is {value!r}.",
            )
        require(
            self.pair_mode == "chang" or self.sample_mode == "pairs",
            f"task.pair_mode {self.pair_mode} must come with task.sample_mode pairs, but that is "
            f"{self.sample_mode}. Leave one of them out.",
        )
        require(
            0 < self.mask_rate < 1,
            f"task.mask_rate must lie between 0 and 1, but is {self.mask_rate}.",
        )
        shown = self.replacement_rates
        require(
            min(shown) >= 0 and sum(shown) <= 1,
            f"task.mask_token_rate and random_token_rate must be shares that sum to at most 1, "
            f"but are {shown[0]} and {shown[1]}.",
        )
        require(self.span_max > 0, f"task.span_max must be at least 1, but is {self.span_max}.")
        require(0 < self.span_p < 1, f"task.span_p must lie between 0 and 1, but is {self.span_p}.")

    @property
    def replacement_rates(self) -> tuple[float, float]:
        """Shares shown as [MASK] and as a random token: as given, or as the law's paper has it."""
        hidden, random = (0.85, 0.0) if self.masking == "electra" else (0.8, 0.1)
        return (
            hidden if self.mask_token_rate is None else self.mask_token_rate,
            random if self.random_token_rate is None else self.random_token_rate,
        )
