"""Progress messages of toolkit-preprocess."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.data.tokenizers.tokenizer import Tokenizer

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}


def log_training(what: str, items: Sequence[str]) -> None:
    """Log the amount of text; the training itself does not report progress."""
    characters = sum(map(len, items))
    print(
        f"training {what} on {len(items):,} item{'s' * (len(items) != 1)}, "
        f"{characters / 1e6:.1f} M characters",
        file=sys.stderr,
    )


def log_trained(what: str, tokenizer: Tokenizer, vocab_size: int, seconds: float) -> None:
    """Log the duration, and whether the vocabulary reached the requested size."""
    words = tokenizer.vocabulary
    added = {*words.special, words.unk} if what == "WordPiece" else set(words.special)
    pieces = len(words) - len(added)
    short = f"; the text has no more, {vocab_size} were requested"
    print(
        f"trained {pieces} {what} pieces in {seconds:.1f} s{short if pieces < vocab_size else ''}",
        file=sys.stderr,
    )


def log_word_counts(counts: Mapping[str, int], tokenizer: Tokenizer, seconds: float) -> None:
    """Log the number of words, and the fraction of the text that the known words cover."""
    words = tokenizer.vocabulary
    reserved = (*words.special, words.unk)
    kept = [symbol for i, symbol in enumerate(words.symbols) if i not in reserved]
    total, known = sum(counts.values()), sum(counts[word] for word in kept)
    print(
        f"counted {total:,} words, {len(counts):,} different ones, in {seconds:.1f} s; the "
        f"{len(kept):,} kept are {known / max(1, total):.2%} of the text",
        file=sys.stderr,
    )
