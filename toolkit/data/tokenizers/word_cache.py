"""Tokenization word by word, with each distinct word segmented once."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.ragged import ragged_arange

MAX_CACHED_WORDS = 1 << 20

Segment = Callable[[Sequence[str]], list[list[int]]]


class WordCache:
    """Ids of lines whose segmentation is the segmentation of their words in order.

    Words are separated by single spaces; two spaces enclose an empty word.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._clear()

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Ids of all lines back to back, and the number of ids per line."""
        if len(self._rows) > MAX_CACHED_WORDS or len(self._ids) > 8 * MAX_CACHED_WORDS:
            self._clear()
        words = " ".join(lines).split(" ") if lines else []
        rows = self._number(words)
        starts = np.frombuffer(self._starts, np.int64)
        first, counts = starts[rows], starts[rows + 1] - starts[rows]
        ids = np.frombuffer(self._ids, np.int32)[ragged_arange(first, counts)].astype(np.int64)
        last_words = np.cumsum(np.array([line.count(" ") + 1 for line in lines], np.int64))
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])[last_words]
        return ids, np.diff(totals, prepend=0)

    def _number(self, words: Sequence[str]) -> IntArray:
        """The rows of the words. New ones are segmented; if that fails, their numbers go too."""
        try:
            rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
            self._add(self._rows.take_new())
        except BaseException:
            self._clear()
            raise
        return rows

    def _clear(self) -> None:
        self._rows = _WordRows()
        self._ids, self._starts = array("i"), array("q", [0])

    def _add(self, words: Sequence[str]) -> None:
        if not words:
            return
        with _collector_paused():
            segmented = self._segment(words)
        start = self._starts.pop()
        self._ids.extend(chain.from_iterable(segmented))
        self._starts.extend(accumulate(map(len, segmented), initial=start))


class _WordRows(dict[str, int]):
    """Words numbered in order of first appearance, with one look-up for known and new words."""

    def __init__(self) -> None:
        self._new: list[str] = []

    def __missing__(self, word: str) -> int:
        self._new.append(word)
        return self.setdefault(word, len(self))

    def take_new(self) -> list[str]:
        """The words added since the last call, in order of their numbers."""
        new, self._new = self._new, []
        return new


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Many small live lists would trigger the cyclic collector again and again, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
