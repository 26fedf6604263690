"""Options of masking, shared by the pretraining tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, AtLeast, Below, Fraction, Options, Size

OpenFraction = Annotated[float, Above(0), Below(1)]
MaskingStrategy = Literal["bernoulli", "exact", "whole_word", "span", "electra"]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig(Options, section="task"):
    """Options of every task that masks tokens."""

    tokens_per_sample: Annotated[int, AtLeast(4)] = 128
    """Maximum number of tokens per sentence, special tokens included; longer ones are truncated."""
    sample_mode: Literal["pairs", "blocks", "documents"] = "pairs"
    """Unit of one sentence. pairs: two segments of whole items, see pair_mode; blocks: running
    text, across all boundaries; documents: the same within one document."""
    pair_mode: Literal["chang", "electra"] = "chang"
    """How sample_mode pairs forms two segments. chang: items 1-2, 3-4, ..., token types all 0;
    electra: items of a document packed to tokens_per_sample, sometimes to fewer, and split into two
    segments, sometimes one, with token types 0 and 1 (Clark et al. 2020, code)."""
    masking: MaskingStrategy = "bernoulli"
    """Which tokens are selected. bernoulli: each independently; exact: an exact fraction;
    whole_word: all subwords of a word; span: runs of words as in SpanBERT; electra: drawn with
    replacement, as for ELECTRA's generator."""
    mask_rate: OpenFraction = 0.15
    """Fraction of tokens to predict."""
    mask_token_rate: Fraction | None = None
    """Fraction of these replaced by [MASK]. Default 0.8, with electra 0.85."""
    random_token_rate: Fraction | None = None
    """Fraction of these replaced by a random token. Default 0.1, with electra 0."""
    span_max: Size = 3
    """Maximum number of words in a span."""
    span_p: OpenFraction = 0.2
    """Parameter of the geometric distribution of span lengths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum("mask_token_rate and random_token_rate", self.replacement_rates)

    @property
    def replacement_rates(self) -> tuple[float, float]:
        """Fractions replaced by [MASK] and by a random token: as given, or the paper's."""
        masked, random = (0.85, 0.0) if self.masking == "electra" else (0.8, 0.1)
        return (
            masked if self.mask_token_rate is None else self.mask_token_rate,
            random if self.random_token_rate is None else self.random_token_rate,
        )


def check_sum(names: str, rates: tuple[float, float]) -> None:
    """Raise a ToolkitError if two rates exceed 1 together."""
    if sum(rates) > 1:
        raise ToolkitError(
            f"task.{names} must sum to at most 1, but are {rates[0]} and {rates[1]}."
        )
