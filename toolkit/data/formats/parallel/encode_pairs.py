"""Encoding of sentence pairs, and the limits that leave pairs out or truncate them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.data.formats.parallel.files import LineBlock
from toolkit.data.preprocessing.workers import load_tokenizer
from toolkit.data.ragged import ragged_arange
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.data.text_files import raise_at_line


class EncodedPairs(NamedTuple):
    """A block of pairs as ids."""

    source: TokenTexts
    target: TokenTexts


def encode_block(folder: Path, block: LineBlock) -> EncodedPairs:
    """The block's ids, by the tokenizer of the folder."""
    tokenizer = load_tokenizer(folder)
    source = tokenizer.encode_lines(block.source)
    target = tokenizer.target.encode_lines(block.target)
    return EncodedPairs(TokenTexts(*source), TokenTexts(*target))


@dataclass(frozen=True, kw_only=True)
class PairLimits:
    """Limits on the pairs of a split, and how to handle pairs that exceed them."""

    max_tokens: int
    """Maximum number of tokens on either side; 0 for no limit."""
    policy: str
    """How to handle a pair that exceeds it: error, skip or truncate."""
    keep_empty: bool
    """Whether pairs without text on a side stay, so that every line keeps its number."""


class LimitedPairs(NamedTuple):
    """The pairs of a block that stay."""

    pairs: EncodedPairs
    kept: BoolArray
    """For each line of the block, whether it stays."""
    empty: int
    """Number of pairs that were left out because a side has no text."""
    overlength: int
    """Number of pairs that exceed the limit."""
    lost: int
    """Number of tokens of both sides that the limit drops."""


def limit_pairs(block: LineBlock, encoded: EncodedPairs, limits: PairLimits) -> LimitedPairs:
    """Leave out or truncate pairs as the limits say."""
    lengths = np.stack([encoded.source.lengths, encoded.target.lengths])
    filled: BoolArray = np.logical_or(lengths.min(0) > 0, limits.keep_empty)
    max_tokens = limits.max_tokens or int(lengths.max(initial=0))
    long = (lengths > max_tokens).any(0) & filled
    if limits.policy == "error" and long.any():
        raise_overlength(block, lengths, int(np.flatnonzero(long)[0]), max_tokens)
    kept: BoolArray = np.logical_and(filled, ~long) if limits.policy == "skip" else filled
    kept_lengths = np.where(kept, np.minimum(lengths, max_tokens), 0)
    sides = zip(encoded, kept_lengths, strict=True)
    pairs = EncodedPairs(*(truncate(text, sizes, kept) for text, sizes in sides))
    lost = int((lengths[:, long] - kept_lengths[:, long]).sum())
    return LimitedPairs(pairs, kept, int((~filled).sum()), int(long.sum()), lost)


def truncate(text: TokenTexts, lengths: IntArray, kept: BoolArray) -> TokenTexts:
    """The first tokens of each item, without the items that are left out."""
    ids = text.ids[ragged_arange(0, text.lengths) < np.repeat(lengths, text.lengths)]
    return TokenTexts(ids, lengths[kept])


def raise_overlength(block: LineBlock, lengths: IntArray, row: int, limit: int) -> NoReturn:
    """Name the file and line of a pair that exceeds the limit."""
    side = int(lengths[1, row] > limit)
    line = (block.source, block.target)[side][row]
    raise_at_line(
        block.files[side],
        1 + block.first + row,
        f"an item must have at most {limit} tokens, but {line[:40]!r}... has "
        f"{lengths[side, row]}. Raise --max-item-tokens, or choose --overlength skip or truncate.",
    )
