"""Division of text into parts for workers, and of these into lines, paragraphs or sentences.

The parts do not depend on the number of workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from toolkit.data.records import find_cut, find_suffix, read_row_lines
from toolkit.data.text_files import (
    CHUNK_BYTES,
    FileChunk,
    LineChunk,
    is_compressed,
    read_lines,
    whole_file,
)

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


PART_BYTES = 2 << 20
MAX_PARTS = 1024
EXPANSION = 3  # estimated ratio of text to compressed text

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_FULL_LINE = re.compile(rb"[^\s][^\n]*\n")  # a line that is not blank


def plan_parts(
    files: Sequence[Path], segment_by: str, field: str = "", *, row_is_document: bool = False
) -> list[list[FileChunk]]:
    """Parts of about equal size, of files in order; large files are cut at line ends.

    Rows with a `field` are cut only if each is a document.
    """
    total = sum(estimate_bytes(whole_file(path)) for path in files)
    part_bytes = max(PART_BYTES, -(-total // MAX_PARTS))
    parts: list[list[FileChunk]] = [[]]
    filled = 0
    for path in files:
        if field:
            cut = _cut_rows(path, part_bytes, field, row_is_document)
        else:
            cut = _cut(path, part_bytes, segment_by)
        for chunk in cut:
            if filled >= part_bytes:
                parts.append([])
                filled = 0
            parts[-1].append(chunk)
            filled += estimate_bytes(chunk)
    return parts


def estimate_bytes(chunk: FileChunk) -> int:
    """Estimated number of bytes of text."""
    compressed = is_compressed(chunk.path) or chunk.path.suffix == ".parquet"
    return chunk.size * (EXPANSION if compressed else 1)


def _cut(path: Path, chunk_bytes: int, segment_by: str) -> list[FileChunk]:
    size = path.stat().st_size
    if is_compressed(path) or size < 2 * chunk_bytes:
        return [whole_file(path)]
    chunks, start, starts_document = [], 0, True
    while start < size:
        end, document_ends = _find_cut(path, start + chunk_bytes, size, segment_by)
        chunks.append(FileChunk(path, start, end, starts_document))
        start, starts_document = end, document_ends
    return chunks


def _cut_rows(path: Path, chunk_bytes: int, field: str, row_is_document: bool) -> list[FileChunk]:
    """Rows that are documents can be cut anywhere."""
    size = path.stat().st_size
    find_suffix(path)  # raises for plain text
    whole = not row_is_document or size < 2 * chunk_bytes
    chunks, start = list[FileChunk](), 0
    while start < size:
        end = size if whole else find_cut(path, min(start + chunk_bytes, size))
        chunks.append(FileChunk(path, start, end, True, field, row_is_document))
        start = end
    return chunks


def _find_cut(path: Path, near: int, size: int, segment_by: str) -> tuple[int, bool]:
    """The first good cut at or after `near`, and whether a document starts there.

    It is after a blank line if the next MiB has one. Otherwise lines may be cut after any line end,
    paragraphs only at a blank line.
    """
    with path.open("rb") as file:
        while near < size:
            file.seek(near)
            window = file.read(CHUNK_BYTES)
            blank = _BLANK_LINE.search(window)
            if blank:
                return near + blank.end(), segment_by == "lines"
            ended = window.rfind(b"\n") + 1  # without it, the search takes quadratic time
            line = _FULL_LINE.search(window, 0, ended) if segment_by == "lines" else None
            if line:
                return near + line.end(), False
            near += max(1, len(window) - 64)  # two windows may share a blank line
    return size, True
