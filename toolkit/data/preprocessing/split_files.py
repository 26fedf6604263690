"""Division of a split's text into parts, independent of the number of workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from toolkit.data.text_files import CHUNK_BYTES, FileChunk, is_compressed

PART_BYTES = 2 << 20
MAX_PARTS = 1024
EXPANSION = 3  # compressed text counts as so many times its size

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_FULL_LINE = re.compile(rb"[^\s][^\n]*\n")  # one that is surely not blank


def plan_parts(files: Sequence[Path], segment_by: str) -> list[list[FileChunk]]:
    """Files in order, big ones cut at line ends, gathered to parts of about equal size."""
    total = sum(estimate_bytes(_whole(path)) for path in files)
    wanted = max(PART_BYTES, -(-total // MAX_PARTS))
    parts: list[list[FileChunk]] = [[]]
    filled = 0
    for path in files:
        for piece in _cut(path, wanted, segment_by):
            if filled >= wanted:
                parts.append([])
                filled = 0
            parts[-1].append(piece)
            filled += estimate_bytes(piece)
    return parts


def estimate_bytes(piece: FileChunk) -> int:
    """About how many bytes of text it holds."""
    return piece.size * (EXPANSION if is_compressed(piece.path) else 1)


def _whole(path: Path) -> FileChunk:
    return FileChunk(path, 0, path.stat().st_size, True)


def _cut(path: Path, wanted: int, units: str) -> list[FileChunk]:
    size = path.stat().st_size
    if is_compressed(path) or size < 2 * wanted:
        return [_whole(path)]
    pieces, begin, fresh = [], 0, True
    while begin < size:
        end, next_fresh = _boundary(path, begin + wanted, size, units)
        pieces.append(FileChunk(path, begin, end, fresh))
        begin, fresh = end, next_fresh
    return pieces


def _boundary(path: Path, near: int, size: int, units: str) -> tuple[int, bool]:
    """The first good cut at or after `near`, and whether a document begins there.

    After a blank line if there is one in the next MiB; otherwise lines may be cut after any
    line end, paragraphs only at a blank line.
    """
    with path.open("rb") as file:
        while near < size:
            file.seek(near)
            window = file.read(CHUNK_BYTES)
            blank = _BLANK_LINE.search(window)
            if blank:
                return near + blank.end(), units == "lines"
            line = _FULL_LINE.search(window) if units == "lines" else None
            if line:
                return near + line.end(), False
            near += max(1, len(window) - 64)  # a blank line may lie across two windows
    return size, True
