"""Columns in NumPy's .npy files, with a CRC32 for every MiB that is compared at its first use.

A column is four one-dimensional arrays: STEM.npy holds the values of all items back to back,
STEM.starts.npy the first value of each item and at the end the number of values,
STEM.documents.npy the first item of each document, and STEM.crc32.npy the checksums of the three.
Type, lengths and the checksum of the last array are in meta.json.
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
    crc32: Count
    """Of the values of STEM.crc32.npy."""


def checksum_blocks(values: AnyArray) -> AnyArray:
    """CRC32 of every MiB of an array's bytes; the last block may be short."""
    data = values.view(np.uint8)
    starts = range(0, len(data), BLOCK_BYTES)
    return np.array([zlib.crc32(data[i : i + BLOCK_BYTES].data) for i in starts], "<u4")


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

    @property
    def blocks(self) -> int:
        """Number of checksums."""
        return -(-self._length * self._dtype.itemsize // BLOCK_BYTES)


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
            if checksum_blocks(data)[0] != self._checksums[block]:
                return int(block)
            self._verified[block] = True
            self._unverified -= 1
        return None

    def find_any_damage(self) -> int | None:
        """The first block that has changed."""
        return self.find_damage(np.zeros(1, np.int64), np.array([len(self._values)]))


class CheckedColumnPart(ColumnPart):
    """The reader of a column. Opening reads headers, sizes and the table of checksums."""

    def __init__(self, stem: Path, entry: JsonObject) -> None:
        self.stem, self.entry, self.dtype = stem, entry, np.dtype(entry["dtype"])
        self._values = self._open("", entry["dtype"], entry["elements"])
        self._starts = self._open(".starts", "<i8", entry["items"] + 1)
        self._documents = self._open(".documents", "<i8", entry["documents"])
        arrays = (self._values, self._starts, self._documents)
        table = self._open(".crc32", "<u4", sum(array.blocks for array in arrays))
        if zlib.crc32(table.values.data) != entry["crc32"]:
            raise ToolkitError(
                f"{table.path} must be the one that meta.json lists, but is damaged or comes from "
                f"another run. {REMEDY}"
            )
        self.files = (*(array.path for array in arrays), table.path)
        self._checksums = np.split(table.values, np.cumsum([array.blocks for array in arrays])[:-1])

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
    def offsets(self) -> IntArray:
        starts = self._read_starts(self._starts, self._checksums[1])
        are_edges = (starts[0], starts[-1]) == (0, self.elements)
        self._require_rising(self._starts, are_edges and bool(np.all(np.diff(starts) >= 0)))
        return starts

    @cached_property
    def document_starts(self) -> IntArray:
        starts = self._read_starts(self._documents, self._checksums[2])
        steps = np.diff(starts, prepend=-1, append=self.items)
        self._require_rising(self._documents, not len(starts) or bool(np.all(steps > 0)))
        return starts

    def _read_starts(self, file: NpyFile, checksums: AnyArray) -> IntArray:
        """A whole array, verified."""
        block = BlockChecks(file.values, checksums).find_any_damage()
        if block is not None:
            self._raise_damaged(file.path, block, "the starts of items or documents")
        return file.values

    def _require_rising(self, file: NpyFile, is_rising: bool) -> None:
        if not is_rising:
            raise ToolkitError(
                f"{file.path} must hold rising numbers up to the {self.items} items or "
                f"{self.elements} values of {self._values.path.name}, but does not. "
                f"Run toolkit-preprocess again."
            )

    @cached_property
    def _blocks(self) -> BlockChecks:
        return BlockChecks(self.values, self._checksums[0])

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
            self._raise_damaged(self._values.path, block, f"item {item}")

    def check_all(self) -> None:
        self.check(np.zeros(1, np.int64), np.full(1, self.elements))
        _ = self.offsets, self.document_starts

    def _raise_damaged(self, path: Path, block: int, what: str) -> NoReturn:
        raise ToolkitError(
            f"{path} does not match its checksums: MiB {block}, which holds {what}, is damaged. "
            f"{REMEDY}"
        )


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
        table = np.concatenate([checksum_blocks(array) for array in (values, starts, documents)])
        for name, array in {"starts": starts, "documents": documents, "crc32": table}.items():
            path = self.stem.with_name(f"{self.stem.name}.{name}.npy")
            path.write_bytes(format_header(array.dtype.str, len(array)) + array.tobytes())
        return {
            "dtype": self._dtype,
            "items": self.items,
            "elements": self._elements,
            "documents": len(documents),
            "crc32": zlib.crc32(table.data),
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
