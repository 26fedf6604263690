"""Segmentation of text into items: lines, paragraphs or sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from toolkit.data.text_files import FileChunk, LineChunk, read_lines

# Full stops of these are no sentence ends; single initials (J. Smith) are not either.
_TITLES = [
    "Mr",
    "Mrs",
    "Ms",
    "Dr",
    "St",
    "Prof",
    "Rev",
    "Hon",
    "Capt",
    "Col",
    "Gen",
    "Lt",
    "Sgt",
    "Messrs",
    "Mme",
    "Mlle",
    "vs",
    "Vol",
    "No",
]
_NOT_BEHIND = "".join(rf"(?<!\b{title}\.)" for title in [*_TITLES, "[A-Z]"])
_CLOSING, _OPENING = "[\"'\u201d\u2019\u00bb)\\]]*", "[\"'\u201c\u2018\u00ab(\\[]*"
_SENTENCE_END = re.compile(  # one set of characters first: the search then skips all others
    "[.!?\u2026\u3002\uff01\uff1f](?:(?<=[\u3002\uff01\uff1f])|"
    rf"{_NOT_BEHIND}{_CLOSING}\s+(?={_OPENING}([^\W_a-z])))"
)


class ItemBatch(NamedTuple):
    """Consecutive items of a file chunk."""

    items: list[str]
    documents: list[int]
    """Document of each item; 0 continues the document before the chunk."""
    lines: list[int]
    """Line of the piece, counted from 0, where the item or its paragraph begins."""
    read_bytes: int


def read_items(piece: FileChunk, segment_by: str, max_line_bytes: int) -> Iterator[ItemBatch]:
    """ItemBatch of a piece of a file, chunk by chunk."""
    chunks = read_lines(piece, max_line_bytes)
    first = 1 if piece.starts_document else 0
    return (
        _lines(chunks, first) if segment_by == "lines" else _paragraphs(chunks, first, segment_by)
    )


def split_sentences(paragraph: str) -> list[str]:
    """Split after . ! ? (and closing quotes) where the next word does not begin in lower case."""
    found = _SENTENCE_END.finditer(paragraph)
    ends = [match.end() for match in found if not (match[1] and is_lowercase(match[1]))]
    cuts = zip([0, *ends], [*ends, len(paragraph)], strict=True)
    return [sentence for begin, end in cuts if (sentence := paragraph[begin:end].strip())]


def is_lowercase(letter: str) -> bool:
    """Whether a sentence would begin with another: Georgian's are lower case, but do begin one."""
    return letter.islower() and letter.title() != letter


def _lines(chunks: Iterable[LineChunk], document: int) -> Iterator[ItemBatch]:
    """A blank line ends a document."""
    inside, first = document == 0, 0
    for chunk in chunks:
        items, documents, lines = [], [], []
        for number, line in enumerate(chunk.lines, first):
            if line:
                items.append(line)
                documents.append(document)
                lines.append(number)
                inside = True
            elif inside:
                document, inside = document + 1, False
        first += len(chunk.lines)
        yield ItemBatch(items, documents, lines, chunk.read_bytes)


def _paragraphs(chunks: Iterable[LineChunk], document: int, units: str) -> Iterator[ItemBatch]:
    """A blank line ends a paragraph; the file is one document."""
    cut = split_sentences if units == "sentences" else lambda paragraph: [paragraph]
    pending: list[str] = []
    read_bytes = number = 0
    for chunk in chunks:
        items: list[str] = []
        lines: list[int] = []
        for line in chunk.lines:
            if line:
                pending.append(line)
            elif pending:
                found = cut(" ".join(pending))
                items += found
                lines += [number - len(pending)] * len(found)
                pending = []
            number += 1
        read_bytes = chunk.read_bytes
        yield ItemBatch(items, [document] * len(items), lines, read_bytes)
    items = cut(" ".join(pending)) if pending else []
    lines = [number - len(pending)] * len(items)
    yield ItemBatch(items, [document] * len(items), lines, read_bytes)
