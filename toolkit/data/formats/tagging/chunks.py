"""Sentences cut into chunks of words that a model reads at once; every word is in one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.ragged import ragged_arange


class Chunks(NamedTuple):
    """Runs of consecutive words."""

    starts: IntArray
    """First word of each, numbered through the split."""
    word_counts: IntArray
    """How many words each has."""
    token_counts: IntArray
    """How many tokens these are."""


def split_into_chunks(lengths: IntArray, tokens: IntArray, max_tokens: int) -> Chunks:
    """Chunks of at most `max_tokens` tokens, of sentences with `lengths` words.

    `tokens` is how many each word takes, at most `most`. A chunk is filled before the next begins;
    where every word is one token, a sentence of 130 words is cut into 60, 60 and 10.
    """
    full = lengths > 0
    ends = np.cumsum(lengths)[full]
    firsts = ends - lengths[full]
    totals = np.append(0, np.cumsum(tokens))
    sums = totals[ends] - totals[firsts]
    begins = [firsts]
    long = np.flatnonzero(sums > max_tokens)
    for first, end in zip(firsts[long].tolist(), ends[long].tolist(), strict=True):
        begins.append(inner_starts(totals, first, end, max_tokens))
    starts = np.sort(np.concatenate(begins))
    words = np.diff(starts, append=int(lengths.sum()))
    return Chunks(starts, words, totals[starts + words] - totals[starts])


def inner_starts(totals: IntArray, first: int, end: int, most: int) -> IntArray:
    """Where the second and later chunks of one sentence begin."""
    found, begin = [], first
    while totals[end] - totals[begin] > most:
        begin = int(np.searchsorted(totals, totals[begin] + most, side="right")) - 1
        found.append(begin)
    return np.array(found, np.int64)


def word_indices(chunks: Chunks, ids: IntArray) -> IntArray:
    """The words of some chunks, back to back."""
    return ragged_arange(chunks.starts[ids], chunks.word_counts[ids])
