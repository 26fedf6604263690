"""Writer of a column part: values as they arrive, with checksums."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import AnyArray, BoolArray, IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.storage.checksums import RunningChecksums
from toolkit.data.storage.header import HEADER_BYTES, NO_FINGERPRINT, Header

ALIGNMENT = 8


class _PayloadWriter:
    """A payload, written before its header, which is known only at the end."""

    def __init__(self, path: Path) -> None:
        self._file, self._sums = path.open("wb"), RunningChecksums()
        self._file.write(b"\0" * HEADER_BYTES)

    def add(self, values: AnyArray) -> None:
        data = np.ascontiguousarray(values).data.cast("B") if values.size else b""
        self._sums.add(data)
        self._file.write(data)

    def finish(self, header: Header) -> Header:
        gap = -self._sums.payload_bytes % ALIGNMENT
        self.add(np.zeros(gap, np.uint8))
        table = self._sums.table()
        self._file.write(table)
        whole = replace(header, payload_bytes=self._sums.payload_bytes, table_crc=zlib.crc32(table))
        self._file.seek(0)
        self._file.write(whole.pack())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return whole


class ColumnWriter:
    """`add` items, then `finish`, to write `stem`.bin and `stem`.idx."""

    def __init__(self, stem: Path, dtype: str, fingerprint: str = NO_FINGERPRINT) -> None:
        self.stem, self.dtype, self.fingerprint = stem, dtype, fingerprint
        self._values = _PayloadWriter(stem.with_name(stem.name + ".bin"))
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._documents: list[IntArray] = []
        self.items = self.elements = self.documents = 0

    def add(self, values: AnyArray, lengths: IntArray, starts_document: BoolArray) -> None:
        """Items back to back, their lengths, and whether each starts a document."""
        self._values.add(values.astype(self.dtype))
        self._lengths.append(lengths.astype(np.int32))
        self._documents.append(self.items + np.flatnonzero(starts_document))
        self.items += len(lengths)
        self.elements += len(values)
        self.documents += int(starts_document.sum())

    def finish(self) -> JsonObject:
        """The part's entry in meta.json."""
        header = Header(
            role="bin",
            dtype=self.dtype,
            items=self.items,
            elements=self.elements,
            documents=self.documents,
            payload_bytes=0,
            table_crc=0,
            fingerprint=self.fingerprint,
        )
        values = self._values.finish(header)
        writer = _PayloadWriter(self.stem.with_name(self.stem.name + ".idx"))
        lengths = np.concatenate([np.zeros(1, np.int32), *self._lengths])
        writer.add(np.cumsum(lengths, dtype="<i8"))
        writer.add(np.concatenate([np.zeros(0, np.int64), *self._documents]).astype("<i8"))
        index = writer.finish(replace(header, role="idx"))
        return {
            "stem": self.stem.name,
            "items": self.items,
            "elements": self.elements,
            "documents": self.documents,
            "checksums": [values.table_crc, index.table_crc],
        }
