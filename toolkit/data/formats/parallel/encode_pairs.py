"""Pairs of lines to pairs of ids, on all cores; those that stay, and what was left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.formats.parallel.files import Block
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.preprocessing.workers import Workers, codec_of
from toolkit.data.ragged import ranges
from toolkit.data.samples.sequence_pairs import Texts
from toolkit.data.text_files import Piece, refuse_line

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Encoded(NamedTuple):
    """A block of pairs as ids."""

    source: Texts
    target: Texts


def encoded(
    blocks: Iterable[Block], codec: ParallelCodec, folder: Path, pool: Workers
) -> Iterator[tuple[Block, Encoded]]:
    """Every block with its ids, in order; several workers load the codec from the folder."""
    function = partial(encode, codec) if pool.alone else partial(encode_in, folder)
    return pool.stream(function, blocks)


def encode(codec: ParallelCodec, block: Block) -> Encoded:
    source, target = codec.encode_lines(block.source), codec.target.encode_lines(block.target)
    return Encoded(Texts(*source), Texts(*target))


def encode_in(folder: Path, block: Block) -> Encoded:
    codec = codec_of(folder)
    assert isinstance(codec, ParallelCodec), "the folder is a parallel one"
    return encode(codec, block)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Which pairs stay as they are."""

    most: int
    """Most tokens of either side; 0 for no limit."""
    policy: str
    """What becomes of a pair of which one side has more: error, skip or truncate."""
    keep_empty: bool
    """Whether pairs without text on a side stay, so that every line keeps its number."""


class Fitted(NamedTuple):
    """The pairs of a block that stay."""

    pairs: Encoded
    rows: Flags
    """Which of the block's lines they are."""
    empty: int
    """Pairs that were left out since a side has no text."""
    too_long: int
    lost: int
    """Tokens of both sides that are gone because of the limit."""


def fit(block: Block, found: Encoded, limits: Limits) -> Fitted:
    """Leave out and shorten as the limits say."""
    lengths = np.stack([found.source.lengths, found.target.lengths])
    filled: Flags = np.logical_or(lengths.min(0) > 0, limits.keep_empty)
    most = limits.most or int(lengths.max(initial=0))
    long = (lengths > most).any(0) & filled
    if limits.policy == "error" and long.any():
        refuse_long(block, lengths, int(np.flatnonzero(long)[0]), most)
    rows: Flags = np.logical_and(filled, ~long) if limits.policy == "skip" else filled
    kept = np.where(rows, np.minimum(lengths, most), 0)
    pairs = Encoded(*(cut(text, k, rows) for text, k in zip(found, kept, strict=True)))
    lost = int((lengths[:, long] - kept[:, long]).sum())
    return Fitted(pairs, rows, int((~filled).sum()), int(long.sum()), lost)


def cut(text: Texts, kept: Numbers, rows: Flags) -> Texts:
    """The first so many tokens of each item, and of all items those that stay."""
    ids = text.ids[ranges(0, text.lengths) < np.repeat(kept, text.lengths)]
    return Texts(ids, kept[rows])


def refuse_long(block: Block, lengths: Numbers, row: int, most: int) -> None:
    side = int(lengths[1, row] > most)
    path, line = block.files[side], (block.source, block.target)[side][row]
    refuse_line(
        Piece(path, 0, 0, True),
        block.first + row,
        f"have at most {most} tokens, but {line[:40]!r}... has {lengths[side, row]}. Raise "
        f"--max-item-tokens, or choose --too-long skip or truncate",
    )
