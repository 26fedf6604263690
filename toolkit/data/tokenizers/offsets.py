"""Text before it is tokenized, tokenization word by word, and the characters of each token."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray, UInt8, ragged_arange
from toolkit.common.errors import ToolkitError

MAX_WORD_CHARACTERS = 256
"""Longer words are split for training, including text without spaces."""
MAX_CACHED_WORDS, MAX_CACHED_IDS = 1 << 20, 1 << 23

LINE_BREAKS = r"[\t-\r\x1c-\x1e\u0085\u2028\u2029]"
"""Where str.splitlines divides a text, and tabs."""

Span = tuple[int, int]
"""First character, and the character after the last."""
TokenSpan = tuple[int, int, int]
"""Id, then its span."""


def lower_without_accents(text: str) -> str:
    """NFKD without combining marks, in lower case, as ALBERT (Lan et al. 2020) and Chang et al.
    2021 (released code) prepare uncased text.
    """
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(c for c in decomposed if not unicodedata.combining(c)).lower()


def replace_line_breaks(text: str) -> str:
    """Replace tabs, line breaks, surrogates and NUL, which keeps the offsets of all characters."""
    return re.sub("[\0\ud800-\udfff]", "\ufffd", re.sub(LINE_BREAKS, " ", text))


def to_line(text: str) -> str:
    """The text on one line, without surrounding white space."""
    return replace_line_breaks(text).strip()


def check_texts(texts: Iterable[object]) -> list[str]:
    """The texts as a list of at least one string; raises for anything else."""
    if isinstance(texts, str):
        raise ToolkitError("texts must be a list, but is a single text. Put it in brackets.")
    checked: list[Any] = list(texts)
    for index, text in enumerate(checked):
        if not isinstance(text, str):
            raise ToolkitError(
                f"texts must be strings, but text {index} is of type {type(text).__name__}."
            )
    if not checked:
        raise ToolkitError("texts must be a list with at least one text, but is empty.")
    return checked


def clean_texts(texts: Iterable[object]) -> list[str]:
    """The texts as lines; blank ones are left out."""
    lines = [line for text in check_texts(texts) if (line := to_line(text))]
    if not lines:
        raise ToolkitError("texts must have at least one that is not blank, but have none.")
    return lines


def split_long_words(item: str) -> str:
    """Split words after MAX_WORD_CHARACTERS, and keep each part once: training would take hours."""
    if len(item) <= MAX_WORD_CHARACTERS:
        return item
    size = MAX_WORD_CHARACTERS
    words = (
        dict.fromkeys(w[i : i + size] for i in range(0, len(w), size)) for w in item.split(" ")
    )
    return " ".join(part for parts in words for part in parts)


class WordCache:
    """Ids of lines that are segmented word by word. Words are separated by single spaces; two
    enclose an empty word. Each distinct word is segmented once, together with all new ones.
    """

    def __init__(self, segment: Callable[[list[str]], list[list[int]]]) -> None:
        self._segment = segment
        self._clear()

    def _clear(self) -> None:
        self._rows = defaultdict[str, int]()
        self._rows.default_factory = self._rows.__len__  # numbers in order of first appearance
        self._ids, self._starts = array("i"), array("q", [0])
        self._sizes = array("i")

    def encode_lines(self, lines: Sequence[str]) -> tuple[IntArray, IntArray, UInt8]:
        """Ids of all lines back to back, ids per line, and words that start in each (`wc -w`)."""
        if len(self._rows) > MAX_CACHED_WORDS or len(self._ids) > MAX_CACHED_IDS:
            self._clear()
        words = " ".join(lines).split(" ") if lines else []
        rows = self._number(words)
        starts = np.frombuffer(self._starts, np.int64)
        first, counts = starts[rows], starts[rows + 1] - starts[rows]
        ids = np.frombuffer(self._ids, np.int32)[ragged_arange(first, counts)].astype(np.int64)
        per_line = np.array([line.count(" ") + 1 for line in lines], np.int64)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        lengths = np.diff(ends[np.cumsum(per_line)], prepend=0)
        sizes = np.frombuffer(self._sizes, np.int32)[rows]
        line_of = np.repeat(np.arange(len(lines)), per_line)
        return ids, lengths, count_word_starts(ends[:-1], line_of, lengths, sizes)

    def _number(self, words: Sequence[str]) -> IntArray:
        """The rows of the words. New ones are segmented; if that fails, their numbers go too."""
        known = len(self._rows)
        try:
            rows = np.fromiter(map(self._rows.__getitem__, words), np.int64, len(words))
            if new := [*islice(reversed(self._rows), len(self._rows) - known)][::-1]:
                segmented, start = self._segment(new), self._starts.pop()
                self._ids.extend(chain.from_iterable(segmented))
                self._starts.extend(accumulate(map(len, segmented), initial=start))
                self._sizes.extend(len(word.split()) for word in new)
        except BaseException:
            self._clear()
            raise
        return rows


def count_word_starts(
    tokens: IntArray, line_of: IntArray, lengths: IntArray, sizes: AnyArray
) -> UInt8:
    """The number of words that start in each token of lines, given the token where each does. Words
    without a token count with the next one of their line, or with its last.
    """
    ends = np.cumsum(lengths)
    first, last = (ends - lengths)[line_of], ends[line_of] - 1
    places, filled = np.clip(tokens, first, last), last >= first
    counts = np.bincount(places[filled], sizes[filled], int(ends[-1]) if len(ends) else 0)
    return np.minimum(counts, 255).astype(np.uint8)


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
    flat, numbers, _ = spans.encode_lines(words)
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
    """From spans in the text that a tokenizer normalizes to spans in `text`. Each character
    decomposes on its own: only combining marks are reordered, and these are dropped.
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
