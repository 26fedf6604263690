"""Named columns of a split: items of any length in memory-mapped files, in one part or many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.data.storage.checksums import Places


class ColumnPart(ABC):
    """Items back to back in files of some format; opening it has read nothing but a header."""

    dtype: np.dtype[Any]

    @property
    @abstractmethod
    def files(self) -> tuple[Path, Path]:
        """The values, and where the items begin."""

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
    def offsets(self) -> Places:
        """Where each item begins, in elements, and at the end where the last one ends."""

    @property
    @abstractmethod
    def document_starts(self) -> Places:
        """First item of each document; items before the first go on with an earlier part's."""

    @abstractmethod
    def take(self, places: Places, begins: Places, ends: Places) -> npt.NDArray[Any]:
        """Values at a grid of element numbers (rows, width), row r within begins[r] .. ends[r].

        The rows are checked, as far as the format lets one, before they are used.
        """

    @abstractmethod
    def check_all(self) -> None:
        """Read everything; damage is an error that names file and item."""


class Column:
    """The parts of one column as if they were one: elements are numbered through."""

    def __init__(self, name: str, parts: Sequence[ColumnPart]) -> None:
        self.name, self.parts = name, list(parts)
        self.dtype = np.result_type(*(part.dtype for part in self.parts))

    @cached_property
    def part_offsets(self) -> Places:
        """The number of each part's first element, and at the end that of all."""
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

    def take(self, places: Places, begins: Places, ends: Places) -> Places:
        """Values at a grid of element numbers (rows, width), row r within begins[r] .. ends[r].

        No row crosses a part.
        """
        owners = np.searchsorted(self.part_offsets, begins, side="right") - 1
        order = np.argsort(owners, kind="stable")
        firsts = self.part_offsets[owners[order]]
        local, begins, ends = places[order] - firsts[:, None], begins[order], ends[order]
        found = np.empty(places.shape, np.int64)
        parts, edges = np.unique(firsts, return_index=True)
        for first, low, high in zip(parts, edges, [*edges[1:], len(order)], strict=True):
            part = self.parts[owners[order[low]]]
            found[low:high] = part.take(
                local[low:high], begins[low:high] - first, ends[low:high] - first
            )
        values = np.empty_like(found)
        values[order] = found
        return values
