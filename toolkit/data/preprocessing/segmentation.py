"""Segmentation of text into items: lines, paragraphs or sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from toolkit.data.records import read_row_lines
from toolkit.data.text_files import FileChunk, LineChunk, read_lines

# Their full stops do not end a sentence, nor do those of initials (J. Smith).
_TITLES = [
    *("Mr", "Mrs", "Ms", "Dr", "St", "Prof", "Rev", "Hon", "Capt", "Col", "Gen", "Lt", "Sgt"),
    *("Messrs", "Mme", "Mlle", "vs", "Vol", "No"),
]
_NOT_AFTER = "".join(rf"(?<!\b{title}\.)" for title in [*_TITLES, "[A-Z]"])
_CLOSING, _OPENING = "[\"'\u201d\u2019\u00bb)\\]]*", "[\"'\u201c\u2018\u00ab(\\[]*"
_SENTENCE_END = re.compile(  # one set of characters first: the search then skips all others
    "[.!?\u2026\u3002\uff01\uff1f](?:(?<=[\u3002\uff01\uff1f])|"
    rf"{_NOT_AFTER}{_CLOSING}\s+(?={_OPENING}([^\W_a-z])))"
)


class ItemBatch(NamedTuple):
    """Consecutive items of a file chunk."""

    items: list[str]
    documents: list[int]
    """Document of each item; 0 continues the document before the chunk."""
    lines: list[int]
    """Line or row of the chunk, counted from 0, where the item or its paragraph starts."""
    read_bytes: int


def read_items(chunk: FileChunk, segment_by: str, max_line_bytes: int) -> Iterator[ItemBatch]:
    """The items of a chunk of a file."""
    read = read_row_lines if chunk.field else read_lines
    lines, document = read(chunk, max_line_bytes), int(chunk.starts_document)
    if chunk.row_is_document:
        return _row_documents(lines, document, segment_by)
    if segment_by == "lines":
        return _lines(lines, document)
    return _paragraphs(lines, document, sentences=segment_by == "sentences")


def split_sentences(paragraph: str) -> list[str]:
    """Split after . ! ? (and closing quotes) unless the next word starts in lower case."""
    matches = _SENTENCE_END.finditer(paragraph)
    ends = [match.end() for match in matches if not (match[1] and is_lowercase(match[1]))]
    edges = pairwise([0, *ends, len(paragraph)])
    return [sentence for start, end in edges if (sentence := paragraph[start:end].strip())]


def is_lowercase(letter: str) -> bool:
    """Whether no sentence starts with it; Georgian letters are lower case, but start sentences."""
    return letter.islower() and letter.title() != letter


def _row_documents(
    chunks: Iterable[LineChunk], document: int, segment_by: str
) -> Iterator[ItemBatch]:
    """Each row is a document, in which blank lines only end paragraphs."""
    for chunk in chunks:
        batch = ItemBatch([], [], [], chunk.read_bytes)
        numbered = zip(chunk.numbers, chunk.lines, strict=True)
        for number, row in groupby(numbered, key=itemgetter(0)):
            lines = [line for _, line in row]
            items = [line for line in lines if line]
            if segment_by != "lines":
                text = [LineChunk(lines, 0, range(len(lines)))]
                found = _paragraphs(text, document, sentences=segment_by == "sentences")
                items = [item for part in found for item in part.items]
            batch.items.extend(items)
            batch.documents.extend([document] * len(items))
            batch.lines.extend([number] * len(items))
            document += 1
        yield batch


def _lines(chunks: Iterable[LineChunk], document: int) -> Iterator[ItemBatch]:
    """A blank line ends a document."""
    inside = document == 0
    for chunk in chunks:
        items, documents, lines = [], [], []
        for number, line in zip(chunk.numbers, chunk.lines, strict=True):
            if line:
                items.append(line)
                documents.append(document)
                lines.append(number)
                inside = True
            elif inside:
                document, inside = document + 1, False
        yield ItemBatch(items, documents, lines, chunk.read_bytes)


def _paragraphs(
    chunks: Iterable[LineChunk], document: int, *, sentences: bool
) -> Iterator[ItemBatch]:
    """A blank line ends a paragraph; the file is one document."""
    split = split_sentences if sentences else lambda paragraph: [paragraph]
    pending: list[str] = []
    read_bytes = first = 0
    for chunk in chunks:
        items: list[str] = []
        lines: list[int] = []
        for number, line in zip(chunk.numbers, chunk.lines, strict=True):
            if line:
                first = first if pending else number
                pending.append(line)
            elif pending:
                new = split(" ".join(pending))
                items += new
                lines += [first] * len(new)
                pending = []
        read_bytes = chunk.read_bytes
        yield ItemBatch(items, [document] * len(items), lines, read_bytes)
    items = split(" ".join(pending)) if pending else []
    yield ItemBatch(items, [document] * len(items), [first] * len(items), read_bytes)
