"""Sentences with masked words, and orders that shuffle their words within windows.

B sentences   S tokens of a sentence   W words of a sentence

Random numbers are hashes of (seed, sentence, word), as those of masking: neither the batch around
a sentence nor the number of sentences changes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.data.samples.masking import SELECT, HashNoise, round_budget
from toolkit.data.samples.sequence_pairs import TokenTexts
from toolkit.data.tokenizers.vocabulary import Vocabulary

ORDER = 0x6F7264
"""Separates the random stream of orders from that of masks."""


class WordSentences(NamedTuple):
    """Sentences with their special tokens, B x S."""

    tokens: IntArray
    lengths: IntArray
    words: IntArray
    """Number of each token's word in its sentence, from 0; -1 at special tokens, padding, and
    tokens before the first start of a word."""

    def permute(self, sources: IntArray) -> WordSentences:
        """The sentences whose position p has the token of position sources[p]."""
        tokens, words = (np.take_along_axis(it, sources, 1) for it in (self.tokens, self.words))
        return WordSentences(tokens, self.lengths, words)


def join_words(
    texts: TokenTexts, special: tuple[Sequence[int], Sequence[int]], vocabulary: Vocabulary
) -> WordSentences:
    """Texts between the special tokens, padded to the longest, with their words numbered.

    A word is a token that starts one and the tokens up to the next start. Byte-level tokenizers do
    not mark the first word of a text, which then has no number.
    """
    before, after = special
    starts, lengths = len(before), texts.lengths + len(before) + len(after)
    positions = np.arange(int(lengths.max()))
    ends = (starts + texts.lengths)[:, None]
    inside = (positions >= starts) & (positions < ends)
    tokens = np.full(inside.shape, vocabulary.pad, np.int64)
    tokens[:, :starts] = before
    tokens[inside] = texts.ids
    for offset, token in enumerate(after):
        tokens[positions == ends + offset] = token
    words = np.cumsum(vocabulary.starts_word[tokens] & inside, 1) - 1
    return WordSentences(tokens, lengths, np.where(inside, words, -1))


def select_words(sentences: WordSentences, rate: float, noise: HashNoise) -> BoolArray:
    """The tokens of max(1, round(rate W)) of the W words of each sentence, all subsets equally
    likely, B x S."""
    counts = sentences.words.max(1) + 1
    numbers = np.arange(max(1, int(counts.max())))
    keys = np.where(numbers < counts[:, None], noise.grid(SELECT, len(numbers)), 2.0)
    ranks = keys.argsort(1).argsort(1)
    selected = ranks < round_budget(counts, rate)[:, None]
    of_tokens = np.take_along_axis(selected, np.maximum(sentences.words, 0), 1)
    masked: BoolArray = of_tokens & (sentences.words >= 0)
    return masked


def shuffle_words(words: IntArray, window: int | None, noise: HashNoise) -> IntArray:
    """For each position the one whose token moves there, B x S.

    Word w is in window floor(w / window), or all words are in one if `window` is None. The words
    of a window are put into an order drawn uniformly from all of them, the original included;
    tokens of a word stay together. Other tokens stay in place.
    """
    width = words.shape[1]
    rows, positions = np.nonzero(words >= 0)
    numbers = words[rows, positions]
    keys = noise.at(ORDER, rows, numbers)
    order = np.lexsort((positions, keys, numbers // (window or width), rows))
    sources = np.tile(np.arange(width), (len(words), 1))
    sources[rows, positions] = positions[order]
    return sources
