"""What data folders of every format offer: splits of named columns with items of any length.

A column has a part in each folder of a corpus; fairseq's folders may have several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.data.tokenizers.tokenizer import Tokenizer


class ColumnPart(ABC):
    """Items back to back in the files of some format; opening reads only their headers."""

    dtype: np.dtype[Any]
    files: Sequence[Path] = ()

    @property
    @abstractmethod
    def items(self) -> int: ...

    @property
    @abstractmethod
    def elements(self) -> int: ...

    @property
    @abstractmethod
    def documents(self) -> int: ...

    @property
    @abstractmethod
    def offsets(self) -> IntArray:
        """First element of each item, and at the end the number of elements."""

    @property
    @abstractmethod
    def document_starts(self) -> IntArray:
        """First item of each document; items before the first belong to the previous part's."""

    @abstractmethod
    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        """Values at a grid of element indices (rows, width), row r within starts[r] .. ends[r].

        Verified as far as the format allows before they are used.
        """

    @abstractmethod
    def check_all(self) -> None:
        """Read and verify everything; an error names the damaged file and item."""


class Column:
    """The parts of a column as one, with elements numbered consecutively."""

    def __init__(self, name: str, parts: Sequence[ColumnPart]) -> None:
        self.name, self.parts = name, list(parts)
        self.dtype = np.result_type(*(part.dtype for part in self.parts))

    @cached_property
    def part_offsets(self) -> IntArray:
        """First element of each part, and at the end the number of elements."""
        return np.cumsum([0, *(part.elements for part in self.parts)], dtype=np.int64)

    @property
    def items(self) -> int:
        return sum(part.items for part in self.parts)

    @property
    def elements(self) -> int:
        return int(self.part_offsets[-1])

    @property
    def documents(self) -> int:
        return sum(part.documents for part in self.parts)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> IntArray:
        """Values at a grid of element indices (rows, width), row r within starts[r] .. ends[r].

        No row crosses a part.
        """
        owners = np.searchsorted(self.part_offsets, starts, side="right") - 1
        order = np.argsort(owners, kind="stable")
        offsets = self.part_offsets[owners[order]]
        local, starts, ends = indices[order] - offsets[:, None], starts[order], ends[order]
        by_part = np.empty(indices.shape, np.int64)
        parts, edges = np.unique(offsets, return_index=True)
        for offset, low, high in zip(parts, edges, [*edges[1:], len(order)], strict=True):
            part = self.parts[owners[order[low]]]
            by_part[low:high] = part.take(
                local[low:high], starts[low:high] - offset, ends[low:high] - offset
            )
        values = np.empty_like(by_part)
        values[order] = by_part
        return values

    def read(self, start: int, end: int) -> IntArray:
        """Consecutive values, possibly of several parts."""
        edges = self.part_offsets
        cuts = [start, *edges[(edges > start) & (edges < end)].tolist(), end]
        values = [np.zeros(0, np.int64)]
        for low, high in pairwise(cuts):
            if low < high:
                row = self.take(np.arange(low, high)[None], np.array([low]), np.array([high]))
                values.append(row[0])
        return np.concatenate(values)

    def read_all(self) -> IntArray:
        return self.read(0, self.elements)


class FolderSource(ABC):
    """One data folder of some format; opening reads no token."""

    path: Path
    kind: str
    """What the items are, such as text."""
    vocabulary_fingerprint: str
    """Of the vocabulary that the column `tokens` was written with."""
    splits: list[str]
    checksums: bool
    """Whether the files carry checksums of their contents."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Changes when the data does."""

    @abstractmethod
    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        """The parts of each column, with equal item counts."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, str]:
        """The program that wrote the folder, and its options."""

    def counts(self, split: str) -> Mapping[str, int]:
        """Name -> count taken when a split was written, such as unknown tokens."""
        return {}

    @abstractmethod
    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that the folder was written with."""
