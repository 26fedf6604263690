"""Reader of a column part in the toolkit's format: two mapped files with block checksums."""

from __future__ import annotations

import zlib
from functools import cached_property, partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from toolkit.common.arrays import AnyArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.checksums import BLOCK_BYTES, BlockChecks, Bytes
from toolkit.data.storage.columns import ColumnPart
from toolkit.data.storage.header import HEADER_BYTES, Header, read_header


class MappedFile:
    """Header, payload and block checksums of one file; opening reads the header only."""

    def __init__(self, path: Path, role: str) -> None:
        self.path, self.header = path, read_header(path)
        if self.header.role != role:
            raise ToolkitError(
                f"{path} must be a .{role} file, but its header says .{self.header.role}: it was "
                f"renamed. Run toolkit-preprocess again."
            )
        self._end = HEADER_BYTES + self.header.payload_bytes

    @cached_property
    def _mapped(self) -> Bytes:
        """Mapped when first used: the number of mappings per process is limited."""
        return np.memmap(self.path, np.uint8, "r").view(np.ndarray)

    @property
    def payload(self) -> Bytes:
        return self._mapped[HEADER_BYTES : self._end]

    @cached_property
    def blocks(self) -> BlockChecks:
        table = self._mapped[self._end :]
        if zlib.crc32(table.data) != self.header.table_crc:
            raise ToolkitError(
                f"the checksum table of {self.path} does not match its header: the file is damaged "
                f"or mixed from two files. Copy the folder again, or run toolkit-preprocess again."
            )
        return BlockChecks(self.payload, table.view("<u4"))


class CheckedColumnPart(ColumnPart):
    """A .bin with the values and an .idx with the starts of items and documents."""

    def __init__(self, stem: Path, split: str, column: str) -> None:
        self.stem, self.split, self.column = stem, split, column
        self._values = MappedFile(stem.with_name(stem.name + ".bin"), "bin")
        self._index = MappedFile(stem.with_name(stem.name + ".idx"), "idx")
        self.header: Header = self._values.header
        self.dtype = np.dtype(self.header.dtype)
        for name in ("dtype", "items", "elements", "documents", "fingerprint"):
            values, index = getattr(self.header, name), getattr(self._index.header, name)
            if values != index:
                raise ToolkitError(
                    f"{stem}.bin and .idx must agree on {name}, but say {values} and {index}. "
                    f"Run toolkit-preprocess again."
                )

    def __reduce__(self) -> tuple[object, ...]:
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
    def values(self) -> AnyArray:
        """Mapped and unverified: `check` what you are about to read."""
        return self._values.payload[: self.elements * self.dtype.itemsize].view(self.dtype)

    @cached_property
    def _index_values(self) -> IntArray:
        self._index.blocks.check_all(self._raise_damaged_index)
        values = self._index.payload.view("<i8")
        offsets = values[: self.items + 1]
        if offsets[0] != 0 or offsets[-1] != self.elements or np.any(np.diff(offsets) < 0):
            raise ToolkitError(
                f"{self._index.path} must hold rising offsets from 0 to {self.elements}, but does "
                f"not. Run toolkit-preprocess again."
            )
        documents = values[self.items + 1 :]
        first, last = (documents[0], documents[-1]) if len(documents) else (0, 0)
        if np.any(np.diff(documents) <= 0) or first < 0 or last >= max(1, self.items):
            raise ToolkitError(
                f"{self._index.path} must list rising first items of documents below {self.items}, "
                f"but does not. Run toolkit-preprocess again."
            )
        return values

    @property
    def offsets(self) -> IntArray:
        return self._index_values[: self.items + 1]

    @property
    def document_starts(self) -> IntArray:
        start = self.items + 1
        return self._index_values[start : start + self.documents]

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        self.check(starts, ends)
        return self.values.take(indices)

    def check(self, starts: IntArray, ends: IntArray) -> None:
        """Verify the blocks that these ranges of elements touch."""
        if self._values.blocks.unverified:
            size = self.values.itemsize
            self._values.blocks.check(
                starts * size, ends * size, partial(self._raise_damaged_values, starts, ends)
            )

    def check_all(self) -> None:
        self._values.blocks.check_all(
            partial(self._raise_damaged_values, np.zeros(1, np.int64), np.full(1, self.elements))
        )
        _ = self.offsets

    def _raise_damaged_index(self, block: int) -> NoReturn:
        self._raise_damaged(self._index.path, block, "the index of its items")

    def _raise_damaged_values(self, starts: IntArray, ends: IntArray, block: int) -> NoReturn:
        size = self.values.itemsize
        low, high = block * BLOCK_BYTES // size, (block + 1) * BLOCK_BYTES // size
        touching = np.flatnonzero((starts < high) & (ends > low))
        element = max(low, int(starts[touching[0]]))
        item = int(np.searchsorted(self.offsets, element, side="right")) - 1
        self._raise_damaged(self._values.path, block, f"item {item}")

    def _raise_damaged(self, path: Path, block: int, what: str) -> NoReturn:
        raise ToolkitError(
            f"{path} (split {self.split!r}, column {self.column!r}) does not match its checksums: "
            f"block {block}, which holds {what}, is damaged. Copy the folder again, or run "
            f"toolkit-preprocess again."
        )
