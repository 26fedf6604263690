"""CRC32 of every MiB of a file's payload, compared when the block is first used."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 1 << 20

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


class RunningChecksums:
    """The table of a payload that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._table: list[int] = []
        self._crc = 0
        self.payload_bytes = 0

    def add(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            room = BLOCK_BYTES - self.payload_bytes % BLOCK_BYTES
            piece, view = view[:room], view[room:]
            self._crc = zlib.crc32(piece, self._crc)
            self.payload_bytes += len(piece)
            if len(piece) == room:
                self._table.append(self._crc)
                self._crc = 0

    def table(self) -> bytes:
        """Little-endian CRC32 of each block, the last one possibly short."""
        last = [self._crc] if self.payload_bytes % BLOCK_BYTES else []
        return np.array(self._table + last, "<u4").tobytes()


class BlockChecks:
    """What has been compared so far of one mapped payload."""

    def __init__(self, payload: Bytes, table: npt.NDArray[Any]) -> None:
        self._payload, self._table = payload, table
        self._good = np.zeros(len(table), bool)
        self.unverified = len(table)
        """Blocks that have not been compared yet."""

    def check(self, begins: Places, ends: Places, damaged: Callable[[int], NoReturn]) -> None:
        """Compare the blocks that hold the byte ranges begins .. ends, unless done before.

        Calls `damaged(block)`, which raises, at the first block that differs.
        """
        if self.unverified == 0:
            return
        filled = ends > begins
        first, last = begins[filled] // BLOCK_BYTES, (ends[filled] - 1) // BLOCK_BYTES
        if np.all(last - first < 2) and self._good[first].all() and self._good[last].all():
            return
        edges = np.zeros(len(self._good) + 1, np.int64)
        np.add.at(edges, first, 1)
        np.add.at(edges, last + 1, -1)
        for block in np.flatnonzero((edges.cumsum()[:-1] > 0) & ~self._good).tolist():
            piece = self._payload[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
            if zlib.crc32(piece.data) != int(self._table[block]):
                damaged(block)
            self._good[block] = True
            self.unverified -= 1

    def check_all(self, damaged: Callable[[int], NoReturn]) -> None:
        whole = np.array([len(self._payload)])
        self.check(np.zeros(1, np.int64), whole, damaged)
