"""Where in a text each of its tokens stands, in characters of the text as it was given."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.tokenizers.normalize import lower_without_accents
from toolkit.data.tokenizers.word_cache import WordCache

Numbers = npt.NDArray[np.int64]
Span = tuple[int, int]
TokenSpan = tuple[int, int, int]
"""Id, and the characters from which and before which it stands."""


class TokenOffsets(NamedTuple):
    """Tokens of several lines back to back."""

    ids: Numbers
    lengths: Numbers
    """Tokens of each line."""
    starts: Numbers
    """The first character of each token, counted from 0 in its line."""
    ends: Numbers
    """The character behind its last; equal to `begins` where it stands for none."""


class WordOffsets:
    """Places of tokens in lines that are segmented word by word, each distinct word once."""

    def __init__(self, locate: Callable[[str], Iterable[TokenSpan]]) -> None:
        self._words = WordCache(
            lambda words: [[n for token in locate(word) for n in token] for word in words]
        )

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        """Words are what spaces separate; two spaces have an empty word between them."""
        if not lines:
            return pack_token_offsets([])
        words = " ".join(lines).split(" ")
        flat, numbers = self._words.encode_lines(words)
        tokens, counts = flat.reshape(-1, 3), numbers // 3
        per_line = np.array([line.count(" ") + 1 for line in lines], np.int64)
        firsts = np.cumsum(per_line) - per_line
        sizes = np.array([len(word) + 1 for word in words], np.int64)
        begins = np.cumsum(sizes) - sizes
        begins -= np.repeat(begins[firsts], per_line)
        shift = np.repeat(begins, counts)
        lengths = np.add.reduceat(counts, firsts)
        return TokenOffsets(tokens[:, 0], lengths, tokens[:, 1] + shift, tokens[:, 2] + shift)


def pack_token_offsets(lines: Sequence[Sequence[TokenSpan]]) -> TokenOffsets:
    """Tokens that were found line by line."""
    lengths = np.array([len(tokens) for tokens in lines], np.int64)
    flat = np.array([token for tokens in lines for token in tokens], np.int64).reshape(-1, 3)
    return TokenOffsets(flat[:, 0], lengths, flat[:, 1], flat[:, 2])


def trim_span(text: str, place: Span) -> Span:
    """Without white space at its edges, and with the combining marks that belong to its last."""
    begin, end = place
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    while begin < end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return begin, end


class OriginalSpans:
    """From places in lower_without_accents(text) back to places in the text.

    Each character gives its own letters there: what order compatibility decomposition changes is
    that of marks alone, which are gone.
    """

    def __init__(self, text: str) -> None:
        letters = (len(lower_without_accents(character)) for character in text)
        self._of = [place for place, count in enumerate(letters) for _ in range(count)]
        self._text = text

    def __call__(self, place: Span) -> Span:
        begin, end = place
        if begin >= end:
            edge = self._of[begin] if begin < len(self._of) else len(self._text)
            return edge, edge
        return trim_span(self._text, (self._of[begin], self._of[end - 1] + 1))


def identity_span(place: Span) -> Span:
    return place


def span_mapper(text: str, lowercase: bool) -> Callable[[Span], Span]:
    """Back from the text that a tokenizer reads to the one that it was given."""
    return OriginalSpans(text) if lowercase and not text.isascii() else identity_span
