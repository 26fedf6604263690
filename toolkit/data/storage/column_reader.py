"""A part of a column in the toolkit's own format: two mapped files with block checksums."""

from __future__ import annotations

import zlib
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.checksums import BLOCK_BYTES, BlockChecks, Bytes, Places
from toolkit.data.storage.columns import ColumnPart
from toolkit.data.storage.header import HEADER_BYTES, Header, read_header


class MappedFile:
    """Header, payload and block checksums of one file; nothing but the header has been read."""

    def __init__(self, path: Path, role: str) -> None:
        self.path, self.header = path, read_header(path)
        if self.header.role != role:
            raise ToolkitError(
                f"{path} must be a .{role} file, but says it is .{self.header.role}: it was "
                f"renamed. Run toolkit-preprocess again."
            )
        self._end = HEADER_BYTES + self.header.payload_bytes

    @cached_property
    def _mapped(self) -> Bytes:
        """Mapped when first used: a system has only so many mappings for a process."""
        return np.memmap(self.path, np.uint8, "r").view(np.ndarray)

    @property
    def payload(self) -> Bytes:
        return self._mapped[HEADER_BYTES : self._end]

    @cached_property
    def blocks(self) -> BlockChecks:
        table = self._mapped[self._end :]
        if zlib.crc32(table.data) != self.header.table_crc:
            raise ToolkitError(
                f"{self.path} must have the checksums that its header says, but has others: it is "
                f"damaged, or two files in one. Copy the folder again, or run toolkit-preprocess "
                f"again."
            )
        return BlockChecks(self.payload, table.view("<u4"))


class CheckedColumnPart(ColumnPart):
    """One .bin with its .idx: values back to back, and where items and documents begin."""

    def __init__(self, stem: Path, split: str, column: str) -> None:
        self.stem, self.split, self.column = stem, split, column
        self._values = MappedFile(stem.with_name(stem.name + ".bin"), "bin")
        self._index = MappedFile(stem.with_name(stem.name + ".idx"), "idx")
        self.header: Header = self._values.header
        self.dtype = np.dtype(self.header.dtype)
        for name in ("dtype", "items", "elements", "documents", "fingerprint"):
            mine, other = getattr(self.header, name), getattr(self._index.header, name)
            if mine != other:
                raise ToolkitError(
                    f"{stem}.bin and .idx must agree on {name}, but say {mine} and {other}. "
                    f"Run toolkit-preprocess again."
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return CheckedColumnPart, (self.stem, self.split, self.column)

    @property
    def items(self) -> int:
        return self.header.items

    @property
    def elements(self) -> int:
        return self.header.elements

    @property
    def documents(self) -> int:
        return self.header.documents

    @property
    def files(self) -> tuple[Path, Path]:
        return self._values.path, self._index.path

    @property
    def checksums(self) -> tuple[int, int]:
        return self.header.table_crc, self._index.header.table_crc

    @cached_property
    def values(self) -> npt.NDArray[Any]:
        """Mapped, unchecked: `check` what you are going to read."""
        return self._values.payload[: self.elements * self.dtype.itemsize].view(self.dtype)

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
        documents = numbers[self.items + 1 :]
        first, last = (documents[0], documents[-1]) if len(documents) else (0, 0)
        if np.any(np.diff(documents) <= 0) or first < 0 or last >= max(1, self.items):
            raise ToolkitError(
                f"{self._index.path} must list rising first items of documents below {self.items}, "
                f"but does not. Run toolkit-preprocess again."
            )
        return numbers

    @property
    def offsets(self) -> Places:
        """Where each item begins, in elements, and at the end where the last one ends."""
        return self._numbers[: self.header.items + 1]

    @property
    def document_starts(self) -> Places:
        """First item of each document; items before the first go on with an earlier part's."""
        begin = self.header.items + 1
        return self._numbers[begin : begin + self.header.documents]

    def take(self, places: Places, begins: Places, ends: Places) -> npt.NDArray[Any]:
        """Values at a grid of element numbers, row r within begins[r] .. ends[r]."""
        self.check(begins, ends)
        return self.values.take(places)

    def check(self, begins: Places, ends: Places) -> None:
        """Compare the checksums of the blocks that these ranges of elements touch."""
        if self._values.blocks.unverified:
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
