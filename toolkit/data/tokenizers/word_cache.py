"""Segmenting lines word by word: each distinct word once, however often it comes."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from toolkit.data.ragged import ragged_arange

CACHED_WORDS = 1 << 20

Ids = npt.NDArray[np.int64]
Segment = Callable[[Sequence[str]], list[list[int]]]


class WordCache:
    """Ids of lines whose segmentation is that of their words one after the other.

    Words are what spaces separate; two spaces have an empty word between them.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._forget()

    def encode_lines(self, lines: Sequence[str]) -> tuple[Ids, Ids]:
        """All ids back to back, and how many each line has."""
        if len(self._rows) > CACHED_WORDS or len(self._ids) > 8 * CACHED_WORDS:
            self._forget()
        words = " ".join(lines).split(" ") if lines else []
        rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
        self._learn(self._rows.take_new())
        begins = np.frombuffer(self._begins, np.int64)
        first, counts = begins[rows], begins[rows + 1] - begins[rows]
        ids = np.frombuffer(self._ids, np.int32)[ragged_arange(first, counts)].astype(np.int64)
        last_words = np.cumsum(np.array([line.count(" ") + 1 for line in lines], np.int64))
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])[last_words]
        return ids, np.diff(totals, prepend=0)

    def _forget(self) -> None:
        self._rows = _Rows()
        self._ids, self._begins = array("i"), array("q", [0])

    def _learn(self, words: Sequence[str]) -> None:
        if not words:
            return
        with _no_collection():
            split = self._segment(words)
        begin = self._begins.pop()
        self._ids.extend(chain.from_iterable(split))
        self._begins.extend(accumulate(map(len, split), initial=begin))


class _Rows(dict[str, int]):
    """Words numbered as they first appear; one look-up a word, whether known or new."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        self._new.append(word)
        return self.setdefault(word, len(self))

    def take_new(self) -> list[str]:
        """The words that appeared since the last call, in the order of their numbers."""
        new, self._new = self._new, []
        return new


@contextmanager
def _no_collection() -> Iterator[None]:
    """Many small lists that are all alive make the cyclic collector search them in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
