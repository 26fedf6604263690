"""Word vectors of a vocabulary, from fastText's text format (Bojanowski et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import open_text, raise_at_line

VECTORS_FILE = "vectors.npy"
SPREAD = 0.05  # words without a vector: uniform in +-0.05 (Dufter et al. 2020, code)

VectorTable = npt.NDArray[np.float32]


def read_word_vectors(
    path: Path, symbols: Sequence[str], *, limit: int = 0, seed: int = 0
) -> tuple[VectorTable, int]:
    """A row for each symbol: its vector, or a random one; and how many vectors were found.

    Only the first `limit` vectors are read, or all. Vectors of other words are skipped unparsed;
    of several vectors of one word the first counts.
    """
    rows = {symbol.encode(): row for row, symbol in enumerate(symbols)}
    vectors: dict[int, VectorTable] = {}
    with open_text(path, "--word-vectors", allow_pipe=True) as file:
        count, width = _parse_header(path, file.readline())
        for number, word, line in _read_lines(path, file, count, width, limit):
            if (row := rows.get(word)) is not None and row not in vectors:
                vectors[row] = _parse_numbers(path, number, line[len(word) :], width)
    table = np.random.default_rng(seed).uniform(-SPREAD, SPREAD, (len(symbols), width))
    if vectors:
        table[list(vectors)] = np.stack(list(vectors.values()))
    return table.astype(np.float32), len(vectors)


def _read_lines(
    path: Path, lines: Iterator[bytes], count: int, width: int, limit: int
) -> Iterator[tuple[int, bytes, bytes]]:
    """Line number, word and line of each vector; a word may contain spaces."""
    number, last = 1, 1 + (min(limit, count) if limit else count)
    for number, line in enumerate(islice(lines, last - 1), 2):
        line = line.rstrip()
        spaces = line.count(b" ")
        if spaces < width:
            raise_at_line(
                path, number, f"expected a word and {width} numbers, found {spaces} numbers."
            )
        # most words contain no space: looking for the first one is fast
        word = line[: line.index(b" ")] if spaces == width else line.rsplit(b" ", width)[0]
        yield number, word, line
    if number < last:
        raise_at_line(
            path,
            number + 1,
            f"expected {count} vectors, as the first line says, but the file ends here. It is cut "
            f"off: copy it again.",
        )


def _parse_header(path: Path, line: bytes) -> tuple[int, int]:
    numbers = line.split()
    if len(numbers) != 2 or not all(n.isdigit() and int(n) for n in numbers):
        raise_at_line(
            path,
            1,
            f"expected the number of vectors and their width, found {line[:40]!r}. Give fastText's "
            f"text format, .vec.",
        )
    return int(numbers[0]), int(numbers[1])


def _parse_numbers(path: Path, number: int, text: bytes, width: int) -> VectorTable:
    try:
        vector = np.array([float(n) for n in text.split()], np.float32)
    except ValueError as error:
        raise_at_line(path, number, f"expected {width} numbers after the word: {error}.")
    if len(vector) != width or not np.isfinite(vector).all():
        raise_at_line(path, number, f"expected {width} finite numbers after the word.")
    return vector


def open_table(path: Path) -> VectorTable:
    """A memory-mapped table; a file of pickled objects is an error."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        raise ToolkitError(
            f"{path} must hold a table of floats, but does not: {error}. Run "
            f"toolkit-preprocess again."
        ) from error
