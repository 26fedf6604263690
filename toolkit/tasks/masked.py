"""Examples with hidden tokens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    tokens_per_sample: int = 128
    """Most tokens in one example, special symbols included."""
    samples: str = "pairs"
    """pairs (of sentences, Chang et al. 2021) or blocks (of tokens)."""
    masking: str = "bernoulli"
    """Law that selects places: bernoulli, exact, whole_word, span or electra."""
    mask_rate: float = 0.15
    """Share of tokens to predict, 0 to 1."""
    mask_token_rate: float = 0.8
    """Share of the selected places that show [MASK]."""
    random_token_rate: float = 0.1
    """Share of the selected places that show a random token."""
