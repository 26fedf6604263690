"""Division of a split's text into parts, independent of the number of workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from toolkit.data.records import find_cut, find_suffix
from toolkit.data.text_files import CHUNK_BYTES, FileChunk, is_compressed, whole_file

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
