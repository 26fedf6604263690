"""Sentences split into chunks of words that a model reads at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.ragged import ragged_arange


class Chunks(NamedTuple):
    """Runs of consecutive words."""

    starts: IntArray
    """First word of each, numbered across the split."""
    word_counts: IntArray
    """Number of words per chunk."""
    token_counts: IntArray
    """Number of tokens per chunk."""


def split_into_chunks(lengths: IntArray, tokens: IntArray, max_tokens: int) -> Chunks:
    """Chunks of at most `max_tokens` tokens, of sentences with `lengths` words.

    `tokens` is the number of tokens of each word, at most `max_tokens`. Each chunk is as long as
    possible: if every word is one token, 130 words become chunks of 60, 60 and 10.
    """
    filled = lengths > 0
    ends = np.cumsum(lengths)[filled]
    sentence_starts = ends - lengths[filled]
    totals = np.append(0, np.cumsum(tokens))
    long = np.flatnonzero(totals[ends] - totals[sentence_starts] > max_tokens)
    inner = [
        find_inner_starts(totals, start, end, max_tokens)
        for start, end in zip(sentence_starts[long].tolist(), ends[long].tolist(), strict=True)
    ]
    starts = np.sort(np.concatenate([sentence_starts, *inner]))
    words = np.diff(starts, append=int(lengths.sum()))
    return Chunks(starts, words, totals[starts + words] - totals[starts])


def find_inner_starts(totals: IntArray, start: int, end: int, max_tokens: int) -> IntArray:
    """Starts of the second and later chunks of one sentence."""
    starts = []
    while totals[end] - totals[start] > max_tokens:
        start = int(np.searchsorted(totals, totals[start] + max_tokens, side="right")) - 1
        starts.append(start)
    return np.array(starts, np.int64)


def word_indices(chunks: Chunks, ids: IntArray) -> IntArray:
    """Indices of the words of some chunks, back to back."""
    return ragged_arange(chunks.starts[ids], chunks.word_counts[ids])
