"""Pairs of lines to pairs of ids, on all cores; those that stay, and what was left out."""

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
from toolkit.data.tokenizers.parallel import ParallelTokenizer


class EncodedPairs(NamedTuple):
    """A block of pairs as ids."""

    source: TokenTexts
    target: TokenTexts


def encode_block(folder: Path, block: LineBlock) -> EncodedPairs:
    """The block's ids, by the tokenizer of the folder."""
    tokenizer = load_tokenizer(folder)
    assert isinstance(tokenizer, ParallelTokenizer), "the folder holds parallel text"
    source = tokenizer.encode_lines(block.source)
    target = tokenizer.target.encode_lines(block.target)
    return EncodedPairs(TokenTexts(*source), TokenTexts(*target))


@dataclass(frozen=True, kw_only=True)
class PairLimits:
    """Which pairs stay as they are."""

    max_tokens: int
    """Most tokens of either side; 0 for no limit."""
    policy: str
    """What becomes of a pair of which one side has more: error, skip or truncate."""
    keep_empty: bool
    """Whether pairs without text on a side stay, so that every line keeps its number."""


class LimitedPairs(NamedTuple):
    """The pairs of a block that stay."""

    pairs: EncodedPairs
    rows: BoolArray
    """Which of the block's lines they are."""
    empty: int
    """Pairs that were left out since a side has no text."""
    overlength: int
    lost: int
    """Tokens of both sides that are gone because of the limit."""


def limit_pairs(block: LineBlock, found: EncodedPairs, limits: PairLimits) -> LimitedPairs:
    """Leave out and shorten as the limits say."""
    lengths = np.stack([found.source.lengths, found.target.lengths])
    filled: BoolArray = np.logical_or(lengths.min(0) > 0, limits.keep_empty)
    most = limits.max_tokens or int(lengths.max(initial=0))
    long = (lengths > most).any(0) & filled
    if limits.policy == "error" and long.any():
        raise_overlength(block, lengths, int(np.flatnonzero(long)[0]), most)
    rows: BoolArray = np.logical_and(filled, ~long) if limits.policy == "skip" else filled
    kept = np.where(rows, np.minimum(lengths, most), 0)
    pairs = EncodedPairs(*(truncate(text, k, rows) for text, k in zip(found, kept, strict=True)))
    lost = int((lengths[:, long] - kept[:, long]).sum())
    return LimitedPairs(pairs, rows, int((~filled).sum()), int(long.sum()), lost)


def truncate(text: TokenTexts, kept: IntArray, rows: BoolArray) -> TokenTexts:
    """The first `kept` tokens of each item, without the items that are left out."""
    ids = text.ids[ragged_arange(0, text.lengths) < np.repeat(kept, text.lengths)]
    return TokenTexts(ids, kept[rows])


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
