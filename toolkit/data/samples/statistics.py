"""Statistics of a text column: how often tokens occur, and which words are collocations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, FloatArray, IntArray, UInt64, mix
from toolkit.data.samples.sequence_pairs import TokenSamples
from toolkit.data.storage.column_files import Column
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.words import WordBoundaries

BLOCK_TOKENS = 1 << 20
MAX_TOKENS = 1 << 27
"""Tokens of a longer column that are read, in evenly spaced blocks."""
SHARES = {2: 0.5, 3: 0.25, 4: 0.125, 5: 0.125}
"""Number of words -> share of the collocations that have it."""
MIN_COUNT = 11
"""Occurrences of a collocation, at least."""


def read_blocks(column: Column) -> Iterator[tuple[IntArray, BoolArray]]:
    """Blocks of tokens, and whether each of these starts an item."""
    stride = BLOCK_TOKENS * -(-column.elements // MAX_TOKENS)
    starts_item = np.zeros(column.elements + 1, bool)
    starts_item[column.item_starts] = True
    for start in range(0, column.elements, stride):
        tokens = column.read(start, min(start + BLOCK_TOKENS, column.elements))
        starts = starts_item[start : start + len(tokens)].copy()
        starts[0] = True
        yield tokens, starts


def count_tokens(column: Column, size: int) -> IntArray:
    """Occurrences of each of this many ids."""
    counts = (np.bincount(tokens, minlength=size) for tokens, _ in read_blocks(column))
    return np.asarray(sum(counts, np.zeros(size, np.int64)))


def measure_rarity(samples: TokenSamples, column: Column, vocabulary: Vocabulary) -> FloatArray:
    """-sum_t log p(w_t) of each sample, p the frequency in the column (Platanios et al. 2019,
    section 3.2, "sentence rarity"); tokens that are not in the column do not count.
    """
    counts = count_tokens(column, len(vocabulary)).astype(np.float64)
    rarity = -np.log(np.where(counts, counts / counts.sum(), 1))
    return samples.sum_tokens(lambda tokens: rarity[tokens])


class Words(NamedTuple):
    """Words of texts back to back."""

    ids: UInt64
    """A hash of each word's tokens."""
    following: IntArray
    """Words from each one to the end of its text, itself included."""

    def hash_ngrams(self, at: IntArray, size: int) -> UInt64:
        """A hash of the n-grams that start at these words."""
        return np.asarray(sum(mix(self.ids[at + n], n) for n in range(size)))


def hash_words(tokens: IntArray, starts_word: BoolArray, starts_text: BoolArray) -> Words:
    """The words of tokens; the first token starts a word and a text."""
    first = np.flatnonzero(starts_word)
    positions = np.arange(len(tokens)) - first[np.cumsum(starts_word) - 1]
    texts = np.cumsum(starts_text)[first]
    following = np.searchsorted(texts, texts, side="right") - np.arange(len(first))
    return Words(np.add.reduceat(mix(tokens, positions), first), following)


class Ngrams(NamedTuple):
    """N-grams of one length, by their hashes in ascending order, and a number for each."""

    hashes: UInt64
    values: FloatArray

    def look_up(self, hashes: UInt64) -> FloatArray:
        """Their numbers; infinity for others."""
        index, table = np.searchsorted(self.hashes, hashes), np.append(self.hashes, np.uint64(0))
        return np.where(table[index] == hashes, np.append(self.values, np.inf)[index], np.inf)


class Collocations:
    """The n-grams of 2 to 5 words with the largest PMI (Levine et al. 2021, equation 3).

    PMI(w_1 .. w_n) = min_sigma log(p(w_1 .. w_n) / prod_{s in sigma} p(s)), where sigma are the
    divisions into shorter n-grams, and p the frequency among the n-grams of a length. One half of
    the collocations has 2 words, a quarter 3, an eighth 4 and 5 each, each by its own ranking, and
    all of them occur more than ten times (the authors' notes). Their number is the smallest that
    covers the share `coverage` of all words: in the paper 800,000, "approximately half".
    """

    def __init__(self, words: Words, coverage: float) -> None:
        places = {n: np.flatnonzero(words.following >= n) for n in range(1, 1 + max(SHARES))}
        counted = {n: count_ngrams(words, at, n) for n, at in places.items()}
        log_p = {n: ngrams for n, (ngrams, _) in counted.items()}
        ranked = {n: rank_by_pmi(words, log_p, counted[n][1], n) for n in SHARES}
        needed = np.full(len(words.ids), np.inf)  # number of collocations that covers each word
        for n, ngrams in ranked.items():
            values = ngrams.look_up(words.hash_ngrams(places[n], n))
            for place in range(n):
                at = places[n] + place
                needed[at] = np.minimum(needed[at], values)
        self.count = np.sort(needed)[int(coverage * len(needed))]
        """Number of collocations, unless there are fewer."""
        self.ngrams = {
            n: Ngrams(*(part[its.values <= self.count] for part in its))
            for n, its in ranked.items()
        }

    def find(self, words: Words) -> tuple[IntArray, IntArray]:
        """First word and end of the collocations in texts that no other one contains."""
        size = np.zeros(len(words.ids), np.int64)
        for n, ngrams in self.ngrams.items():  # longer ones last
            at = np.flatnonzero(words.following >= n)
            size[at[np.isfinite(ngrams.look_up(words.hash_ngrams(at, n)))]] = n
        starts = np.flatnonzero(size)
        ends = starts + size[starts]
        outside = ends > np.maximum.accumulate(np.append(0, ends))[:-1]
        return starts[outside], ends[outside]


def count_ngrams(words: Words, at: IntArray, size: int) -> tuple[Ngrams, IntArray]:
    """log p of the n-grams that start at these words and occur often, and where each occurs."""
    ngrams = words.hash_ngrams(at, size)
    hashes, first, counts = np.unique(ngrams, return_index=True, return_counts=True)
    often = counts >= MIN_COUNT
    return Ngrams(hashes[often], np.log(counts[often] / len(at))), at[first[often]]


def rank_by_pmi(words: Words, log_p: dict[int, Ngrams], at: IntArray, size: int) -> Ngrams:
    """The n-grams that start at these words, each with the length of the shortest list with it.
    Parts of frequent n-grams are frequent, so `log_p` has them.
    """

    def of(start: int, end: int) -> FloatArray:
        return log_p[end - start].look_up(words.hash_ngrams(at + start, end - start))

    best = [np.zeros(len(at))]  # of all divisions of the first words, the most probable one
    for end in range(1, size + 1):
        parts = [best[start] + of(start, end) for start in range(end == size, end)]
        best.append(np.max(parts, axis=0))
    order = np.argsort(best[size] - of(0, size), kind="stable")  # the largest PMI first
    ranks = np.empty(len(at))
    ranks[order] = np.arange(1, len(at) + 1)
    return Ngrams(log_p[size].hashes, ranks / SHARES[size])


def find_collocations(column: Column, words: WordBoundaries, coverage: float) -> Collocations:
    """The collocations of a text column."""
    ids, following = zip(
        *(hash_words(t, words.starts(t) | starts, starts) for t, starts in read_blocks(column)),
        strict=True,
    )
    return Collocations(Words(np.concatenate(ids), np.concatenate(following)), coverage)
