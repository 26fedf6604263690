"""Named columns of a split: items of any length in memory-mapped files, in one part or many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.checksums import BLOCK_BYTES, Blocks, Places
from toolkit.data.header import HEADER_BYTES, Header, read_header


class MappedFile:
    """Header, payload and block checksums of one file; nothing but the header has been read."""

    def __init__(self, path: Path, role: str) -> None:
        self.path, self.header = path, read_header(path)
        if self.header.role != role:
            raise ToolkitError(
                f"{path} must be a .{role} file, but says it is .{self.header.role}: it was "
                f"renamed. Run toolkit-preprocess again."
            )
        self._mapped = np.memmap(path, np.uint8, "r").view(np.ndarray)
        end = HEADER_BYTES + self.header.payload_bytes
        self.payload = self._mapped[HEADER_BYTES:end]

    @cached_property
    def blocks(self) -> Blocks:
        end = HEADER_BYTES + self.header.payload_bytes
        return Blocks(self.payload, self._mapped[end:].view("<u4"))


class Part:
    """One .bin with its .idx: values back to back, and where items and documents begin."""

    def __init__(self, stem: Path, split: str, column: str) -> None:
        self.stem, self.split, self.column = stem, split, column
        self._values = MappedFile(stem.with_name(stem.name + ".bin"), "bin")
        self._index = MappedFile(stem.with_name(stem.name + ".idx"), "idx")
        self.header: Header = self._values.header
        for name in ("dtype", "items", "elements", "documents", "fingerprint"):
            mine, other = getattr(self.header, name), getattr(self._index.header, name)
            if mine != other:
                raise ToolkitError(
                    f"{stem}.bin and .idx must agree on {name}, but say {mine} and {other}. "
                    f"Run toolkit-preprocess again."
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return Part, (self.stem, self.split, self.column)

    @property
    def files(self) -> tuple[Path, Path]:
        return self._values.path, self._index.path

    @property
    def checksums(self) -> tuple[int, int]:
        return self.header.table_crc, self._index.header.table_crc

    @cached_property
    def values(self) -> npt.NDArray[Any]:
        """Mapped, unchecked: `check` what you are going to read."""
        dtype = np.dtype(self.header.dtype)
        return self._values.payload[: self.header.elements * dtype.itemsize].view(dtype)

    @cached_property
    def _numbers(self) -> Places:
        self._index.blocks.check_all(self._damaged_index)
        numbers = self._index.payload.view("<i8")
        offsets = numbers[: self.header.items + 1]
        if offsets[0] != 0 or offsets[-1] != self.header.elements or np.any(np.diff(offsets) < 0):
            raise ToolkitError(
                f"{self._index.path} must hold rising offsets from 0 to {self.header.elements}, "
                f"but does not. Run toolkit-preprocess again."
            )
        return numbers

    @property
    def offsets(self) -> Places:
        """Where each item begins, in elements, and at the end where the last one ends."""
        return self._numbers[: self.header.items + 1]

    @property
    def document_items(self) -> Places:
        """First item of each document; items before the first go on with an earlier part's."""
        begin = self.header.items + 1
        return self._numbers[begin : begin + self.header.documents]

    def check(self, begins: Places, ends: Places) -> None:
        """Compare the checksums of the blocks that these ranges of elements touch."""
        if self._values.blocks.unseen:
            size = self.values.itemsize
            self._values.blocks.check(
                begins * size, ends * size, partial(self._damaged_values, begins, ends)
            )

    def check_all(self) -> None:
        self._values.blocks.check_all(
            partial(self._damaged_values, np.zeros(1, np.int64), np.full(1, self.header.elements))
        )
        _ = self.offsets

    def _damaged_index(self, block: int) -> NoReturn:
        self._damaged(self._index.path, block, "where its items begin")

    def _damaged_values(self, begins: Places, ends: Places, block: int) -> NoReturn:
        size = self.values.itemsize
        low, high = block * BLOCK_BYTES // size, (block + 1) * BLOCK_BYTES // size
        hit = np.flatnonzero((begins < high) & (ends > low))
        element = max(low, int(begins[hit[0]]))
        item = int(np.searchsorted(self.offsets, element, side="right")) - 1
        self._damaged(self._values.path, block, f"item {item}")

    def _damaged(self, path: Path, block: int, what: str) -> NoReturn:
        raise ToolkitError(
            f"{path} (split {self.split!r}, column {self.column!r}) must match its checksums, but "
            f"block {block} is damaged, and with it {what}. Copy the folder again, or run "
            f"toolkit-preprocess again."
        )


class Column:
    """The parts of one column as if they were one: elements are numbered through."""

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self.name, self.parts = name, list(parts)
        sizes = [part.header.elements for part in self.parts]
        self.first_elements: Places = np.cumsum([0, *sizes], dtype=np.int64)
        self.items = sum(part.header.items for part in self.parts)
        self.elements = int(self.first_elements[-1])
        self.documents = sum(part.header.documents for part in self.parts)
        self.dtype = np.result_type(*(part.header.dtype for part in self.parts))

    def take(self, places: Places, begins: Places, ends: Places) -> Places:
        """Values at a grid of element numbers (rows, width), row r within begins[r] .. ends[r].

        No row crosses a part; the blocks of the rows are checked before anything is read.
        """
        owners = np.searchsorted(self.first_elements, begins, side="right") - 1
        order = np.argsort(owners, kind="stable")
        firsts = self.first_elements[owners[order]]
        local, begins, ends = places[order] - firsts[:, None], begins[order], ends[order]
        found = np.empty(places.shape, np.int64)
        parts, edges = np.unique(firsts, return_index=True)
        for first, low, high in zip(parts, edges, [*edges[1:], len(order)], strict=True):
            part = self.parts[owners[order[low]]]
            part.check(begins[low:high] - first, ends[low:high] - first)
            found[low:high] = part.values.take(local[low:high])
        values = np.empty_like(found)
        values[order] = found
        return values
