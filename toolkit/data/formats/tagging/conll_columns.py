"""CoNLL columns: a word and its tag per line, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.tagging.sentence import (
    MISSING_TAG,
    ParsedSentence,
    TaggedSentence,
    attach_source,
)
from toolkit.data.ragged import ragged_arange
from toolkit.data.text_files import find_text_start, raise_at_line, read_strict_text


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


DOCUMENT_START = b"-DOCSTART-"
"""First column of a line between two documents of CoNLL-2003; it is no word."""


def read_conll_columns(
    path: Path, *, tag_column: int = 2, untagged: bool = False
) -> Iterator[TaggedSentence]:
    """The word in the first column of each line, and the tag in `tag_column`, counted from 1.

    Tabs separate them if the first line has one, else single spaces; all lines have equally many.
    With `untagged`, `_` may stand for an unknown tag.
    """
    data, _ = read_strict_text(path)
    return attach_source(parse_sentences(path, data, tag_column, untagged), data)


def parse_sentences(
    path: Path, data: bytes, tag_column: int, untagged: bool
) -> Iterator[ParsedSentence]:
    """The sentences of a file, whose lines are checked."""
    separator, columns = b"", 0
    offset = start = find_text_start(data)
    sentence = TaggedSentence.empty()
    for number, line in enumerate(data[offset:].split(b"\n"), 1):
        if line.strip() and not line.startswith(DOCUMENT_START):
            separator = separator or (b"\t" if b"\t" in line else b" ")
            parts = line.removesuffix(b"\r").split(separator)
            columns = columns or len(parts)
            check_columns(path, number, parts, columns, separator, tag_column)
            word, tag = parts[0].decode(), parts[tag_column - 1].decode()
            if tag == MISSING_TAG and not untagged:
                raise_at_line(
                    path, number, f"a word must have a tag, but {word!r} has {MISSING_TAG}."
                )
            start = start if sentence.words else offset
            first = offset - start + sum(len(part) + 1 for part in parts[: tag_column - 1])
            sentence.add(word, tag, (first, first + len(parts[tag_column - 1])), number)
        elif sentence.words:
            yield ParsedSentence(sentence, start, offset)
            sentence = TaggedSentence.empty()
        offset += len(line) + 1
    if sentence.words:
        yield ParsedSentence(sentence, start, len(data))


def check_columns(
    path: Path,
    number: int,
    parts: list[bytes],
    columns: int,
    separator: bytes,
    tag_column: int,
) -> None:
    """Raise a ToolkitError unless a line has the columns of the lines before it."""
    name = "tabs" if separator == b"\t" else "single spaces"
    if len(parts) < 2:
        raise_at_line(
            path, number, f"a line must have a word and its tag with {name} between them."
        )
    if len(parts) != columns:
        raise_at_line(
            path,
            number,
            f"a line must have {columns} columns separated by {name}, as the first one, but has "
            f"{len(parts)}.",
        )
    if columns < tag_column:
        raise_at_line(
            path,
            number,
            f"--tag-column {tag_column} requires {tag_column} columns separated by {name}, but the "
            f"line has {columns}.",
        )
    if not parts[0].strip() or not parts[tag_column - 1].strip():
        raise_at_line(path, number, "word and tag must not be empty, but one is.")
