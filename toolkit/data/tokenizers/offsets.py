"""Tokenization word by word, and the characters of the original text that each token covers."""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.tokenizers.normalize import lower_without_accents

MAX_CACHED_WORDS, MAX_CACHED_BYTES = 1 << 20, 1 << 25

Span = tuple[int, int]
"""First character, and the character after the last."""
TokenSpan = tuple[int, int, int]
"""Id, then its span."""


class WordCache(dict[str, bytes]):
    """Ids of lines whose segmentation is the segmentation of their words in order.

    Words are separated by single spaces; two spaces enclose an empty word. Each distinct word is
    segmented once. Its ids are kept as bytes, which the garbage collector does not visit.
    """

    def __init__(self, segment: Callable[[str], Iterable[int]]) -> None:
        self._segment, self._bytes = segment, 0

    def __missing__(self, word: str) -> bytes:
        ids = self[word] = array("i", self._segment(word)).tobytes()
        self._bytes += len(ids)
        return ids

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Ids of all lines back to back, and the number of ids per line."""
        if len(self) > MAX_CACHED_WORDS or self._bytes > MAX_CACHED_BYTES:
            self.clear()
            self._bytes = 0
        rows = [b"".join(map(self.__getitem__, line.split(" "))) for line in lines]
        ids = np.frombuffer(b"".join(rows), np.intc).astype(np.int64)
        return ids, np.array([len(row) for row in rows], np.int64) // array("i").itemsize


class TokenOffsets(NamedTuple):
    """Tokens of several lines back to back."""

    ids: IntArray
    lengths: IntArray
    """Tokens per line."""
    starts: IntArray
    """First character of each token, counted from 0 in its line."""
    ends: IntArray
    """Character after the last; equal to the start if the token covers none."""


def locate_words(spans: WordCache, lines: Sequence[str]) -> TokenOffsets:
    """Offsets in lines that are segmented word by word; `spans` has the TokenSpans of words."""
    if not lines:
        return pack_token_offsets([])
    words = " ".join(lines).split(" ")
    flat, numbers = spans.encode_lines(words)
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


def span_mapper(text: str, lowercase: bool) -> Callable[[Span], Span]:
    """From spans in the text that a tokenizer normalizes to spans in `text`.

    In lower_without_accents each character decomposes on its own: compatibility decomposition only
    reorders combining marks, and these are dropped.
    """
    if not lowercase or text.isascii():
        return lambda span: span
    letters = (len(lower_without_accents(character)) for character in text)
    origin = [index for index, count in enumerate(letters) for _ in range(count)]

    def to_original(span: Span) -> Span:
        start, end = span
        if start < end:
            return trim_span(text, (origin[start], origin[end - 1] + 1))
        edge = origin[start] if start < len(origin) else len(text)
        return edge, edge

    return to_original
