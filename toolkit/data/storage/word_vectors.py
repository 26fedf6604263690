"""Vectors of words in fastText's text format (Bojanowski et al. 2017), for a vocabulary."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_json
from toolkit.data.formats.tagging.sentence import raise_at_line

VECTORS_FILE = "vectors.npy"
INIT_RANGE = 0.05  # words without a vector: uniform within this (Dufter et al. 2020, code)
MAX_COMPRESSION = 1032
"""Times that gzip makes a file smaller, at most."""

Matrix = npt.NDArray[np.float32]


class WordVectors(NamedTuple):
    """Words and the rows of a memory-mapped table."""

    rows: Mapping[str, int]
    table: Matrix

    def rows_for(self, symbols: list[str], *, seed: int = 0) -> tuple[Matrix, int]:
        """A row for each symbol, random ones where there is none, and how many were found."""
        random = np.random.default_rng(seed)
        found = random.uniform(-INIT_RANGE, INIT_RANGE, (len(symbols), self.table.shape[1]))
        known = [(i, self.rows[s]) for i, s in enumerate(symbols) if s in self.rows]
        places = np.array(known, np.int64).reshape(-1, 2)
        found[places[:, 0]] = self.table[places[:, 1]]
        return found.astype(np.float32), len(known)


def read_word_vectors(path: Path, max_vectors: int = 0) -> WordVectors:
    """The first vectors of a file, or all; parsed once and then read from a cache beside it."""
    cache = cache_path(path, max_vectors)
    names, table = cache.with_suffix(".json"), cache.with_suffix(".npy")
    if not (names.is_file() and table.is_file()):
        words, vectors = parse_vectors(path, max_vectors)
        if not write_cache(names, table, words, vectors):
            return WordVectors({w: i for i, w in reversed(list(enumerate(words)))}, vectors)
    words = read_json(names, 1 << 30)
    rows = {w: i for i, w in reversed(list(enumerate(words)))}  # the first of equal ones counts
    return WordVectors(rows, open_table(table))


def open_table(path: Path) -> Matrix:
    """A memory-mapped table; a file of objects, which would be unpickled, is refused."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        raise ToolkitError(
            f"{path} must hold a table of numbers, but does not: {error}."
        ) from error


def cache_path(path: Path, first: int) -> Path:
    """Named by the file's size and time, so that another file of the name is read anew."""
    try:
        found = path.stat()
    except OSError as error:
        raise ToolkitError(
            f"word_vectors must name a readable file, but {path} is not: {error.strerror}. "
            f"Correct the path."
        ) from error
    mark = hashlib.sha256(f"{found.st_size} {found.st_mtime_ns} {first}".encode()).hexdigest()[:16]
    return path.with_name(f"{path.name}.{mark}.cache")


def write_cache(names: Path, table: Path, words: list[str], vectors: Matrix) -> bool:
    """Write the cache, whole or not at all; False where the folder takes no files."""
    partial = names.with_name(f"{names.name}.{os.getpid()}")
    try:
        for path in (table, names):
            with partial.open("wb") as file:
                if path is table:
                    np.save(file, vectors)
                else:
                    file.write(json.dumps(words).encode())
            partial.rename(path)
    except OSError as error:
        print(f"no cache of the vectors in {names.parent}: {error.strerror}", file=sys.stderr)
        with suppress(OSError):
            partial.unlink()
        return False
    return True


def parse_vectors(path: Path, first: int) -> tuple[list[str], Matrix]:
    words: list[str] = []
    try:
        with open_vectors(path) as file:
            count, width = parse_header(path, file.readline())
            count = min(first, count) if first else count
            check_count(path, count, width)
            vectors = np.empty((count, width), np.float32)
            for number, line in enumerate(islice(file, count)):
                words.append(parse_row(path, number + 2, line, vectors[number]))
    except (OSError, EOFError, zlib.error) as error:
        raise ToolkitError(
            f"word_vectors must name a readable file, but {path} is not: {error}. Correct the "
            f"path, or copy it again."
        ) from error
    if len(words) < count:
        raise_at_line(
            path,
            len(words) + 2,
            f"the file must hold the {count} vectors that its first line says, but ends here. It "
            f"is cut off: copy it again.",
        )
    return words, vectors


def check_count(path: Path, count: int, width: int) -> None:
    """Before room is made for them: a number has a digit and a space at least.

    A pipe does not say what it holds.
    """
    if not path.is_file():
        return
    held = path.stat().st_size * (MAX_COMPRESSION if path.suffix == ".gz" else 1)
    if 2 * count * width > held:
        raise_at_line(
            path,
            1,
            f"the file must hold the vectors that its first line says, but {count} of {width} "
            f"numbers each have no room in it. It is cut off, or the line is wrong: copy it again.",
        )


def open_vectors(path: Path) -> io.BufferedIOBase:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def parse_header(path: Path, line: bytes) -> tuple[int, int]:
    numbers = line.split()
    if len(numbers) != 2 or not all(n.isdigit() and int(n) for n in numbers):
        raise_at_line(
            path,
            1,
            f"the first line must be how many vectors follow and how wide they are, but is "
            f"{line[:40]!r}. Give fastText's text format, .vec.",
        )
    return int(numbers[0]), int(numbers[1])


def parse_row(path: Path, number: int, line: bytes, into: Matrix) -> str:
    """A word, which may hold spaces, and behind it its numbers."""
    parts = line.rstrip().rsplit(b" ", len(into))
    try:
        if len(parts) != len(into) + 1:
            raise ValueError(f"has {len(parts) - 1}")
        into[:] = parts[1:]
        if not np.isfinite(into).all():
            raise ValueError("has one that is not finite")
        return parts[0].decode()
    except (ValueError, UnicodeDecodeError) as error:
        raise_at_line(
            path, number, f"a line must be a word and {len(into)} numbers, but is not: {error}."
        )
