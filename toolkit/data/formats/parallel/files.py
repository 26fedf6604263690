"""Which files hold the two languages of a split, and their lines side by side."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import (
    COMPRESSION_SUFFIXES,
    FileChunk,
    read_lines,
    strip_compression_suffix,
)


class FilePair(NamedTuple):
    """Two files whose lines belong together."""

    source: Path
    target: Path


class LineBlock(NamedTuple):
    """Consecutive lines of a pair of files."""

    files: FilePair
    first: int
    """Number of the first line, counted from 0."""
    source: list[str]
    target: list[str]
    read_bytes: int
    """Bytes of both files that were read for it."""


def list_file_pairs(option: str, names: str, languages: tuple[str, str]) -> list[FilePair]:
    """The pairs of files P.de and P.en of each prefix P that a comma-separated option names."""
    prefixes = [Path(name) for name in names.split(",") if name]
    return [
        FilePair(*(find_language_file(prefix, language, option) for language in languages))
        for prefix in prefixes
    ]


def find_language_file(prefix: Path, language: str, option: str) -> Path:
    """P.de, P.de.gz or P.de.xz, whichever is there."""
    for packed in COMPRESSION_SUFFIXES:
        path = prefix.parent / f"{prefix.name}.{language}{packed}"
        if path.is_file():
            if path.stat().st_size == 0:
                raise ToolkitError(f"{path} must hold text, but is empty. Take it out of {option}.")
            return path
    there = list_languages(prefix)
    beside = f"only {', '.join(there)}" if there else "no such file in any language"
    raise ToolkitError(
        f"{option} must name files in both languages, but {prefix}.{language} is not there, "
        f"{beside}. Give the path without the language's ending, and its languages with "
        f"--source-lang and --target-lang."
    )


def list_languages(prefix: Path) -> list[str]:
    """The endings of the files that begin as the prefix does."""
    if not prefix.name or not prefix.parent.is_dir():
        return []
    ends = {strip_compression_suffix(path.name) for path in prefix.parent.iterdir()}
    own = (end for end in ends if end.startswith(f"{prefix.name}."))
    return sorted(end.removeprefix(f"{prefix.name}.") for end in own)


def read_blocks(files: FilePair, lines: int, max_line_bytes: int) -> Iterator[LineBlock]:
    """The lines of both files side by side, `lines` at a time; the files must be equally long."""
    first, blanks = (
        0,
        (CountedLines(files.source, max_line_bytes), CountedLines(files.target, max_line_bytes)),
    )
    source: list[str] = []
    target: list[str] = []
    reading = zip_longest(*blanks)
    for one, other in reading:
        if one is None or other is None:
            for _ in reading:  # to the end, for the counts
                pass
            raise_unequal(files, [side.count for side in blanks])
        source.append(one)
        target.append(other)
        if len(source) == lines:
            yield LineBlock(
                files, first, source, target, sum(side.take_read_bytes() for side in blanks)
            )
            first, source, target = first + lines, [], []
    if source:
        yield LineBlock(
            files, first, source, target, sum(side.take_read_bytes() for side in blanks)
        )


class CountedLines:
    """The lines of a file one by one; blank ones too. It counts them, and the bytes read."""

    def __init__(self, path: Path, max_line_bytes: int) -> None:
        self._chunks = read_lines(FileChunk(path, 0, path.stat().st_size, True), max_line_bytes)
        self._read = self._told = self.count = 0

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            self._read = chunk.read_bytes
            for line in chunk.lines:
                self.count += 1
                yield line

    def take_read_bytes(self) -> int:
        """Bytes read since it was last asked."""
        new, self._told = self._read - self._told, self._read
        return new


def raise_unequal(files: FilePair, counts: list[int]) -> None:
    raise ToolkitError(
        f"{files.source} and {files.target} must have equally many lines, but have {counts[0]:,} "
        f"and {counts[1]:,}. Line n of one must say what line n of the other does; look for a "
        f"blank line at an end."
    )
