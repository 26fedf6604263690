"""Offset mapping: the characters of the original text that each token covers."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.tokenizers.normalize import lower_without_accents
from toolkit.data.tokenizers.word_cache import WordCache

Span = tuple[int, int]
"""First character, and the character after the last."""
TokenSpan = tuple[int, int, int]
"""Id, then its span."""


class TokenOffsets(NamedTuple):
    """Tokens of several lines back to back."""

    ids: IntArray
    lengths: IntArray
    """Tokens per line."""
    starts: IntArray
    """First character of each token, counted from 0 in its line."""
    ends: IntArray
    """Character after the last; equal to the start if the token covers none."""


class WordOffsets:
    """Offsets in lines that are segmented word by word, with each distinct word located once."""

    def __init__(self, locate: Callable[[str], Iterable[TokenSpan]]) -> None:
        self._words = WordCache(
            lambda words: [[n for token in locate(word) for n in token] for word in words]
        )

    def encode_with_offsets(self, lines: Sequence[str]) -> TokenOffsets:
        """Words are separated by single spaces; two spaces enclose an empty word."""
        if not lines:
            return pack_token_offsets([])
        words = " ".join(lines).split(" ")
        flat, numbers = self._words.encode_lines(words)
        tokens, counts = flat.reshape(-1, 3), numbers // 3
        words_per_line = np.array([line.count(" ") + 1 for line in lines], np.int64)
        first_words = np.cumsum(words_per_line) - words_per_line
        sizes = np.array([len(word) + 1 for word in words], np.int64)
        starts = np.cumsum(sizes) - sizes
        starts -= np.repeat(starts[first_words], words_per_line)
        shift = np.repeat(starts, counts)
        lengths = np.add.reduceat(counts, first_words)
        return TokenOffsets(tokens[:, 0], lengths, tokens[:, 1] + shift, tokens[:, 2] + shift)


def pack_token_offsets(lines: Sequence[Sequence[TokenSpan]]) -> TokenOffsets:
    """Tokens that were located line by line."""
    lengths = np.array([len(tokens) for tokens in lines], np.int64)
    flat = np.array([token for tokens in lines for token in tokens], np.int64).reshape(-1, 3)
    return TokenOffsets(flat[:, 0], lengths, flat[:, 1], flat[:, 2])


def trim_span(text: str, span: Span) -> Span:
    """Without white space at either end, and with the combining marks that follow it."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return start, end


class OriginalSpans:
    """Maps spans in lower_without_accents(text) back to spans in the text.

    Each character decomposes on its own: compatibility decomposition only reorders combining
    marks, and these are dropped.
    """

    def __init__(self, text: str) -> None:
        letters = (len(lower_without_accents(character)) for character in text)
        self._origin = [index for index, count in enumerate(letters) for _ in range(count)]
        self._text = text

    def __call__(self, span: Span) -> Span:
        start, end = span
        if start >= end:
            edge = self._origin[start] if start < len(self._origin) else len(self._text)
            return edge, edge
        return trim_span(self._text, (self._origin[start], self._origin[end - 1] + 1))


def identity_span(span: Span) -> Span:
    """The span itself: for text that no normalization has changed."""
    return span


def span_mapper(text: str, lowercase: bool) -> Callable[[Span], Span]:
    """From spans in the normalized text to spans in `text`."""
    return OriginalSpans(text) if lowercase and not text.isascii() else identity_span
