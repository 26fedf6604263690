"""Columns in NumPy's .npy files, with a CRC32 for every MiB that is compared at its first use.

A column is four one-dimensional arrays: STEM.npy holds the values of all items back to back,
STEM.starts.npy the first value of each item and at the end the number of values,
STEM.documents.npy the first item of each document, and STEM.crc32.npy the checksums of the values,
filled with zeros to a multiple of 8 bytes, and of the starts and documents as one array. Type,
lengths and two checksums of the last array are in meta.json.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NoReturn, TypedDict

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import AnyArray, BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import Count, JsonObject
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary

BLOCK_BYTES = 1 << 20
HEADER_BYTES = 128
REMEDY = "Copy the folder again, or run toolkit-preprocess again."
WORDS = "words"
"""Column of text with the number of words that start in each token, as `wc -w` counts them."""
ColumnType = str | Vocabulary
"""A dtype such as "<i4", or the vocabulary that the values are ids of."""


class ColumnPart(ABC):
    """Items back to back in the files of some format; opening reads only their headers."""

    dtype: np.dtype[Any]
    files: Sequence[Path] = ()

    @cached_property
    def index(self) -> tuple[IntArray, IntArray]:
        """`offsets` and `document_starts`."""
        raise NotImplementedError

    @property
    def offsets(self) -> IntArray:
        """First element of each item, and at the end the number of elements."""
        return self.index[0]

    @property
    def document_starts(self) -> IntArray:
        """First item of each document; items before the first belong to the previous part's."""
        return self.index[1]

    @cached_property
    def items(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def elements(self) -> int:
        return int(self.offsets[-1])

    @cached_property
    def documents(self) -> int:
        return len(self.document_starts)

    @abstractmethod
    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        """Values at a grid of element indices (rows, width), row r within starts[r] .. ends[r].

        Verified as far as the format allows before they are used.
        """

    def check_all(self) -> None:
        """Read and verify everything; an error names the damaged file and item."""
        _ = self.index


class Column:
    """The parts of a column as one, with elements numbered consecutively."""

    def __init__(self, name: str, parts: Sequence[ColumnPart]) -> None:
        self.name, self.parts = name, list(parts)
        self.dtype = np.result_type(*(part.dtype for part in self.parts))
        self.read_as = self.dtype if self.dtype.kind == "f" else np.dtype(np.int64)

    @cached_property
    def part_offsets(self) -> IntArray:
        """First element of each part, and at the end the number of elements."""
        return np.cumsum([0, *(part.elements for part in self.parts)], dtype=np.int64)

    @cached_property
    def item_starts(self) -> IntArray:
        """First element of each item."""
        parts = zip(self.parts, self.part_offsets.tolist(), strict=False)
        return np.concatenate([part.offsets[:-1] + first for part, first in parts])

    @cached_property
    def lengths(self) -> IntArray:
        """Elements of each item."""
        return np.concatenate([np.diff(part.offsets) for part in self.parts])

    @property
    def items(self) -> int:
        return sum(part.items for part in self.parts)

    @property
    def elements(self) -> int:
        return int(self.part_offsets[-1])

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        """`ColumnPart.take` over all parts; no row crosses one."""
        owners = np.searchsorted(self.part_offsets, starts, side="right") - 1
        order = np.argsort(owners, kind="stable")
        offsets = self.part_offsets[owners[order]]
        local, starts, ends = indices[order] - offsets[:, None], starts[order], ends[order]
        by_part = np.empty(indices.shape, self.read_as)
        parts, edges = np.unique(offsets, return_index=True)
        for offset, low, high in zip(parts, edges, [*edges[1:], len(order)], strict=True):
            part = self.parts[owners[order[low]]]
            own = slice(low, high)
            by_part[own] = part.take(local[own], starts[own] - offset, ends[own] - offset)
        values = np.empty_like(by_part)
        values[order] = by_part
        return values

    def read(self, start: int, end: int) -> AnyArray:
        """Consecutive values, possibly of several parts; all integers as int64."""
        values = [np.zeros(0, self.read_as)]
        for part, first in zip(self.parts, self.part_offsets.tolist(), strict=False):
            low, high = max(start - first, 0), min(end - first, part.elements)
            if low < high:
                row = part.take(np.arange(low, high)[None], np.array([low]), np.array([high]))
                values.append(row[0])
        return np.concatenate(values)

    def read_all(self) -> AnyArray:
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

    facts: dict[str, str]
    """The program that wrote the folder, and its options."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """Changes when the data does."""

    @abstractmethod
    def parts(self, split: str) -> dict[str, list[ColumnPart]]:
        """The parts of each column, with equal item counts."""

    def counts(self, split: str) -> Mapping[str, int]:
        """Name -> count taken when a split was written, such as unknown tokens."""
        return {}

    @abstractmethod
    def load_tokenizer(self) -> Tokenizer:
        """The tokenizer that the folder was written with."""


class ColumnEntry(TypedDict):
    """A column in meta.json."""

    dtype: Literal["<u1", "<u2", "<i4", "<i8", "<f4"]
    items: Count
    elements: Count
    documents: Count
    checksums: list[int]
    """CRC32 of the checksums of the values, and of those of the starts and documents."""


def checksum_blocks(*arrays: AnyArray) -> AnyArray:
    """CRC32 of every MiB of the bytes of all arrays back to back; the last block may be short."""
    table, crc, filled = list[int](), 0, 0
    for array in arrays:
        data = array.view(np.uint8)
        while len(data):
            block, data = np.split(data, [BLOCK_BYTES - filled])
            crc, filled = zlib.crc32(block.data, crc), filled + len(block)
            if filled == BLOCK_BYTES:
                table.append(crc)
                crc = filled = 0
    return np.array(table + [crc] * bool(filled), "<u4")


def checksum_values(values: AnyArray) -> AnyArray:
    """The checksums of values, filled with zeros to a multiple of 8 bytes."""
    return checksum_blocks(values, np.zeros(-values.nbytes % 8, np.uint8))


def format_header(dtype: str, length: int) -> bytes:
    """The header of a one-dimensional array in NumPy's format 1.0, 128 bytes."""
    text = f"{{'descr': '{np.dtype(dtype).str}', 'fortran_order': False, 'shape': ({length},), }}"
    size = HEADER_BYTES - 10
    return b"\x93NUMPY\1\0" + size.to_bytes(2, "little") + text.ljust(size - 1).encode() + b"\n"


def map_npy(path: Path, dtype: str, length: int) -> AnyArray:
    """The array of a .npy file that `format_header` begins, checked by header and size, and
    mapped.
    """
    with open_regular(path) as file:
        header, size = file.read(HEADER_BYTES), file.seek(0, 2)
    if header != format_header(dtype, length):
        raise ToolkitError(
            f"{path} must be an array of {length} values of type {dtype}, as meta.json says, "
            f"but is damaged or comes from another run or program. {REMEDY}"
        )
    expected = HEADER_BYTES + length * np.dtype(dtype).itemsize
    if size != expected:
        raise ToolkitError(
            f"{path} must have {expected} bytes, but has {size}: it is truncated or still "
            f"being copied. {REMEDY}"
        )
    if not length:
        return np.zeros(0, dtype)
    return np.memmap(path, np.dtype(dtype), "r", HEADER_BYTES, (length,)).view(np.ndarray)


class CheckedColumnPart(ColumnPart):
    """The reader of a column. Opening reads headers, sizes and the table of checksums."""

    def __init__(self, stem: Path, entry: JsonObject) -> None:
        self.stem, self.entry, self.dtype = stem, entry, np.dtype(entry["dtype"])
        self.items, self.elements = entry["items"], entry["elements"]
        self.documents = entry["documents"]
        names = ("", ".starts", ".documents", ".crc32")
        self.files = tuple(stem.with_name(f"{stem.name}{name}.npy") for name in names)
        sizes = self.dtype.itemsize * self.elements, 8 * (self.items + 1 + self.documents)
        blocks, more = (-(-size // BLOCK_BYTES) for size in sizes)
        self.values = map_npy(self.files[0], entry["dtype"], self.elements)
        """Mapped and unverified: `check` what you are about to read."""
        self._starts = map_npy(self.files[1], "<i8", self.items + 1)
        self._documents = map_npy(self.files[2], "<i8", self.documents)
        table = map_npy(self.files[3], "<u4", blocks + more)
        self._checksums, self._index_checksums = np.split(table, [blocks])
        self._verified, self._unverified = np.zeros(blocks, bool), blocks
        if [zlib.crc32(it.data) for it in (self._checksums, self._index_checksums)] != entry[
            "checksums"
        ]:
            raise ToolkitError(
                f"{self.files[3]} must be the one that meta.json lists, but is damaged or comes "
                f"from another run. {REMEDY}"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return CheckedColumnPart, (self.stem, self.entry)

    @cached_property
    def index(self) -> tuple[IntArray, IntArray]:
        """Verified."""
        starts, documents, files = self._starts, self._documents, self.files
        if not np.array_equal(checksum_blocks(starts, documents), self._index_checksums):
            self._raise_damaged(f"{files[1]} or {files[2].name}", "the index")
        rising = (starts[0], starts[-1]) == (0, self.elements) and np.all(np.diff(starts) >= 0)
        steps = np.diff(documents, prepend=-1, append=self.items)
        if not rising or (len(documents) and np.any(steps <= 0)):
            raise ToolkitError(
                f"{files[1]} and {files[2].name} must hold rising numbers up to {self.elements} "
                f"values and {self.items} items, but do not. Run toolkit-preprocess again."
            )
        return starts, documents

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        self.check(starts, ends)
        return self.values.take(indices)

    def check(self, starts: IntArray, ends: IntArray) -> None:
        """Verify the blocks that these ranges of elements touch, each once."""
        if not self._unverified:
            return
        filled, size = ends > starts, self.dtype.itemsize
        first = starts[filled] * size // BLOCK_BYTES
        last = (ends[filled] * size - 1) // BLOCK_BYTES
        if np.all(last - first < 2) and self._verified[first].all() and self._verified[last].all():
            return
        edges, width = np.zeros(len(self._verified) + 1, np.int64), BLOCK_BYTES // size
        np.add.at(edges, first, 1)
        np.add.at(edges, last + 1, -1)
        for block in np.flatnonzero((edges.cumsum()[:-1] > 0) & ~self._verified).tolist():
            data = self.values[block * width : (block + 1) * width]
            if checksum_values(data)[0] == self._checksums[block]:
                self._verified[block] = True
                self._unverified -= 1
                continue
            touching = (starts < (block + 1) * width) & (ends > block * width)
            element = max(block * width, int(starts[np.argmax(touching)]))
            item = int(np.searchsorted(self.offsets, element, side="right")) - 1
            self._raise_damaged(str(self.files[0]), f"MiB {block}, which holds item {item},")

    def check_all(self) -> None:
        self.check(np.zeros(1, np.int64), np.full(1, self.elements))
        super().check_all()

    def _raise_damaged(self, files: str, what: str) -> NoReturn:
        raise ToolkitError(f"{files} does not match its checksums: {what} is damaged. {REMEDY}")


class ColumnWriter:
    """`add` items, then `finish`, to write the files of a column."""

    def __init__(self, stem: Path, kind: ColumnType) -> None:
        self.stem, self._dtype = stem, kind.dtype if isinstance(kind, Vocabulary) else kind
        self._path = stem.with_name(f"{stem.name}.npy")
        self._file = self._path.open("wb")
        self._file.write(b"\0" * HEADER_BYTES)
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._documents: list[IntArray] = []
        self.items = self._elements = 0

    def add(self, values: AnyArray, lengths: IntArray, starts_document: BoolArray) -> None:
        """Items back to back, their lengths, and whether each starts a document."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._lengths.append(lengths.astype(np.int32))
        self._documents.append(self.items + np.flatnonzero(starts_document))
        self.items += len(lengths)
        self._elements += len(values)

    def finish(self) -> JsonObject:
        """Write the header, the other arrays and the checksums; returns the entry in meta.json."""
        self._file.seek(0)
        self._file.write(format_header(self._dtype, self._elements))
        self._file.close()
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int32), *self._lengths]), dtype="<i8")
        documents = np.concatenate([np.zeros(0, "<i8"), *self._documents])
        values = map_npy(self._path, self._dtype, self._elements)
        tables = checksum_values(values), checksum_blocks(starts, documents)
        table = np.concatenate(tables)
        for name, array in {"starts": starts, "documents": documents, "crc32": table}.items():
            path = self.stem.with_name(f"{self.stem.name}.{name}.npy")
            path.write_bytes(format_header(array.dtype.str, len(array)) + array.tobytes())
        return {
            "dtype": self._dtype,
            "items": self.items,
            "elements": self._elements,
            "documents": len(documents),
            "checksums": [zlib.crc32(part.data) for part in tables],
        }
