"""Pairs of lines to pairs of ids, on all cores; those that stay, and what was left out."""

from __future__ import annotations

import multiprocessing
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.codec import Codec
from toolkit.data.pairs import Texts
from toolkit.data.parallel.codec import ParallelCodec
from toolkit.data.parallel.files import Block
from toolkit.data.ranges import ranges
from toolkit.data.text import Piece, refuse

AHEAD = 2
"""Blocks for each process that are read before the first of them is needed."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_codec: list[ParallelCodec] = []  # in a worker: the codec it has loaded


class Encoded(NamedTuple):
    """A block of pairs as ids."""

    source: Texts
    target: Texts


def encoded(
    blocks: Iterable[Block], codec: ParallelCodec, folder: Path, workers: int
) -> Iterator[tuple[Block, Encoded]]:
    """Every block with its ids, in order; with several workers, these do it side by side."""
    if workers < 2:
        yield from ((block, encode(block, codec)) for block in blocks)
        return
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(folder,)) as pool:
        waiting: deque[tuple[Block, Future[Encoded]]] = deque()
        given = ((block, pool.submit(_encode, block)) for block in blocks)
        try:
            waiting.extend(islice(given, AHEAD * workers))
            while waiting:
                block, future = waiting.popleft()
                found = future.result()
                waiting.extend(islice(given, 1))
                yield block, found
        except BrokenProcessPool as error:
            raise ToolkitError(
                "every worker must live to the end, but one was killed, most often for want of "
                "memory. Use fewer --workers."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def encode(block: Block, codec: ParallelCodec) -> Encoded:
    source, target = codec.encode_lines(block.source), codec.target.encode_lines(block.target)
    return Encoded(Texts(*source), Texts(*target))


def _begin(folder: Path) -> None:
    found = Codec.load(folder)
    assert isinstance(found, ParallelCodec), "the folder is a parallel one"
    _codec.append(found)


def _encode(block: Block) -> Encoded:
    return encode(block, _codec[0])


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
    refuse(
        Piece(path, 0, 0, True),
        block.first + row,
        f"have at most {most} tokens, but {line[:40]!r}... has {lengths[side, row]}. Raise "
        f"--max-item-tokens, or choose --too-long skip or truncate",
    )
