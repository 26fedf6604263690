"""Columns in NumPy's .npy files, with a CRC32 for every MiB that is compared at its first use.

A column is four one-dimensional arrays: STEM.npy holds the values of all items back to back,
STEM.starts.npy the first value of each item and at the end the number of values,
STEM.documents.npy the first item of each document, and STEM.crc32.npy the checksums of the three:
those of the values, filled with zeros to a multiple of 8 bytes, and then those of the starts and
the documents as one array. Type, lengths and two checksums of the last array are in meta.json.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal, NoReturn, TypedDict

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import AnyArray, BoolArray, IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import Count, JsonObject
from toolkit.data.storage.columns import ColumnPart
from toolkit.data.tokenizers.vocabulary import Vocabulary

BLOCK_BYTES = 1 << 20
HEADER_BYTES = 128
REMEDY = "Copy the folder again, or run toolkit-preprocess again."
ColumnType = str | Vocabulary
"""A dtype such as "<i4", or the vocabulary that the values are ids of."""


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


class NpyFile:
    """A .npy file that `format_header` begins; opening reads its header and its size."""

    def __init__(self, path: Path, dtype: str, length: int) -> None:
        self.path, self._dtype, self._length = path, np.dtype(dtype), length
        try:
            with open_regular(path) as file:
                header, size = file.read(HEADER_BYTES), file.seek(0, 2)
        except OSError as error:
            raise ToolkitError(
                f"{path} must be readable, but is not: {error.strerror}. {REMEDY}"
            ) from error
        if header != format_header(dtype, length):
            raise ToolkitError(
                f"{path} must be an array of {length} values of type {dtype}, as meta.json says, "
                f"but is damaged or comes from another run or program. {REMEDY}"
            )
        expected = HEADER_BYTES + length * self._dtype.itemsize
        if size != expected:
            raise ToolkitError(
                f"{path} must have {expected} bytes, but has {size}: it is truncated or still "
                f"being copied. {REMEDY}"
            )

    @cached_property
    def values(self) -> AnyArray:
        """Mapped when first used, and not verified."""
        if not self._length:
            return np.zeros(0, self._dtype)
        shape = (self._length,)
        return np.memmap(self.path, self._dtype, "r", HEADER_BYTES, shape).view(np.ndarray)


class BlockChecks:
    """Compares blocks of an array with their checksums, each once."""

    def __init__(self, values: AnyArray, checksums: AnyArray) -> None:
        self._values, self._checksums = values, checksums
        self._verified = np.zeros(len(checksums), bool)
        self._unverified = len(checksums)

    def find_damage(self, starts: IntArray, ends: IntArray) -> int | None:
        """The first block with values in the ranges starts .. ends that has changed."""
        if not self._unverified:
            return None
        filled, size = ends > starts, self._values.itemsize
        first = starts[filled] * size // BLOCK_BYTES
        last = (ends[filled] * size - 1) // BLOCK_BYTES
        if np.all(last - first < 2) and self._verified[first].all() and self._verified[last].all():
            return None
        edges = np.zeros(len(self._verified) + 1, np.int64)
        np.add.at(edges, first, 1)
        np.add.at(edges, last + 1, -1)
        width = BLOCK_BYTES // size
        for block in np.flatnonzero((edges.cumsum()[:-1] > 0) & ~self._verified).tolist():
            data = self._values[block * width : (block + 1) * width]
            if checksum_values(data)[0] != self._checksums[block]:
                return int(block)
            self._verified[block] = True
            self._unverified -= 1
        return None


class CheckedColumnPart(ColumnPart):
    """The reader of a column. Opening reads headers, sizes and the table of checksums."""

    def __init__(self, stem: Path, entry: JsonObject) -> None:
        self.stem, self.entry, self.dtype = stem, entry, np.dtype(entry["dtype"])
        self._values = self._open("", entry["dtype"], entry["elements"])
        self._starts = self._open(".starts", "<i8", entry["items"] + 1)
        self._documents = self._open(".documents", "<i8", entry["documents"])
        sizes = self.dtype.itemsize * self.elements, 8 * (self.items + 1 + self.documents)
        blocks, more = (-(-size // BLOCK_BYTES) for size in sizes)
        table = self._open(".crc32", "<u4", blocks + more)
        self._checksums, self._index_checksums = np.split(table.values, [blocks])
        if [zlib.crc32(self._checksums.data), zlib.crc32(self._index_checksums.data)] != entry[
            "checksums"
        ]:
            raise ToolkitError(
                f"{table.path} must be the one that meta.json lists, but is damaged or comes from "
                f"another run. {REMEDY}"
            )
        files = (self._values, self._starts, self._documents, table)
        self.files = tuple(file.path for file in files)

    def _open(self, array: str, dtype: str, length: int) -> NpyFile:
        return NpyFile(self.stem.with_name(f"{self.stem.name}{array}.npy"), dtype, length)

    def __reduce__(self) -> tuple[object, ...]:
        return CheckedColumnPart, (self.stem, self.entry)

    @property
    def items(self) -> int:
        return int(self.entry["items"])

    @property
    def elements(self) -> int:
        return int(self.entry["elements"])

    @property
    def documents(self) -> int:
        return int(self.entry["documents"])

    @property
    def values(self) -> AnyArray:
        """Mapped and unverified: `check` what you are about to read."""
        return self._values.values

    @cached_property
    def _index(self) -> tuple[IntArray, IntArray]:
        """The starts of items and documents, verified."""
        starts, documents = self._starts.values, self._documents.values
        if not np.array_equal(checksum_blocks(starts, documents), self._index_checksums):
            self._raise_damaged(f"{self._starts.path} or {self._documents.path.name}", "the index")
        rising = (starts[0], starts[-1]) == (0, self.elements) and np.all(np.diff(starts) >= 0)
        steps = np.diff(documents, prepend=-1, append=self.items)
        if not rising or (len(documents) and np.any(steps <= 0)):
            raise ToolkitError(
                f"{self._starts.path} and {self._documents.path.name} must hold rising numbers up "
                f"to {self.elements} values and {self.items} items, but do not. "
                f"Run toolkit-preprocess again."
            )
        return starts, documents

    @property
    def offsets(self) -> IntArray:
        return self._index[0]

    @property
    def document_starts(self) -> IntArray:
        return self._index[1]

    @cached_property
    def _blocks(self) -> BlockChecks:
        return BlockChecks(self.values, self._checksums)

    def take(self, indices: IntArray, starts: IntArray, ends: IntArray) -> AnyArray:
        self.check(starts, ends)
        return self.values.take(indices)

    def check(self, starts: IntArray, ends: IntArray) -> None:
        """Verify the blocks that these ranges of elements touch."""
        block = self._blocks.find_damage(starts, ends)
        if block is not None:
            width = BLOCK_BYTES // self.dtype.itemsize
            touching = (starts < (block + 1) * width) & (ends > block * width)
            element = max(block * width, int(starts[np.argmax(touching)]))
            item = int(np.searchsorted(self.offsets, element, side="right")) - 1
            self._raise_damaged(str(self._values.path), f"MiB {block}, which holds item {item},")

    def check_all(self) -> None:
        self.check(np.zeros(1, np.int64), np.full(1, self.elements))
        _ = self._index

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
        values = NpyFile(self._path, self._dtype, self._elements).values
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


class SplitWriter:
    """Writes all columns of a split item by item: call `add`, then `finish`."""

    def __init__(self, folder: Path, split: str, columns: Mapping[str, ColumnType]) -> None:
        self._writers = {
            name: ColumnWriter(folder / f"{split}.{name}", kind) for name, kind in columns.items()
        }

    @property
    def items(self) -> int:
        """Number of items added."""
        return next(iter(self._writers.values())).items

    def add(
        self, columns: Mapping[str, tuple[AnyArray, IntArray]], starts_document: BoolArray
    ) -> None:
        """Column -> values back to back, and the number of values of each item."""
        for name, (values, lengths) in columns.items():
            self._writers[name].add(values, lengths, starts_document)

    def finish(self) -> JsonObject:
        """The columns' entries in meta.json."""
        return {name: writer.finish() for name, writer in self._writers.items()}
