"""Writes one part of a column as values arrive, checksums and all."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.data.storage.checksums import RunningChecksums
from toolkit.data.storage.header import HEADER_BYTES, Header

ALIGNMENT = 8


class _Payload:
    """Bytes behind a header that is only known at the end."""

    def __init__(self, path: Path) -> None:
        self._file, self._sums = path.open("wb"), RunningChecksums()
        self._file.write(b"\0" * HEADER_BYTES)

    def add(self, values: npt.NDArray[Any]) -> None:
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
    """`add` items, then `finish`: leaves `stem`.bin and `stem`.idx behind."""

    def __init__(self, stem: Path, dtype: str, fingerprint: str = "0" * 64) -> None:
        self.stem, self.dtype, self.fingerprint = stem, dtype, fingerprint
        self._values = _Payload(stem.with_name(stem.name + ".bin"))
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._documents: list[npt.NDArray[np.int64]] = []
        self.items = self.elements = self.documents = 0

    def add(
        self,
        values: npt.NDArray[Any],
        lengths: npt.NDArray[np.int64],
        begins_document: npt.NDArray[np.bool_],
    ) -> None:
        """Items back to back, their lengths, and whether each begins a document."""
        self._values.add(values.astype(self.dtype))
        self._lengths.append(lengths.astype(np.int32))
        self._documents.append(self.items + np.flatnonzero(begins_document))
        self.items += len(lengths)
        self.elements += len(values)
        self.documents += int(begins_document.sum())

    def finish(self) -> dict[str, Any]:
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
        index = _Payload(self.stem.with_name(self.stem.name + ".idx"))
        lengths = np.concatenate([np.zeros(1, np.int32), *self._lengths])
        index.add(np.cumsum(lengths, dtype="<i8"))
        index.add(np.concatenate([np.zeros(0, np.int64), *self._documents]).astype("<i8"))
        positions = index.finish(replace(header, role="idx"))
        return {
            "stem": self.stem.name,
            "items": self.items,
            "elements": self.elements,
            "documents": self.documents,
            "checksums": [values.table_crc, positions.table_crc],
        }
