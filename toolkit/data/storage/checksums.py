"""CRC32 checksums of every MiB of a file's payload, compared when a block is first read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import AnyArray, IntArray

BLOCK_BYTES = 1 << 20

Bytes = npt.NDArray[np.uint8]


class RunningChecksums:
    """The checksum table of a payload that arrives in chunks of any size."""

    def __init__(self) -> None:
        self._table: list[int] = []
        self._crc = 0
        self.payload_bytes = 0

    def add(self, data: bytes | memoryview) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            room = BLOCK_BYTES - self.payload_bytes % BLOCK_BYTES
            chunk, view = view[:room], view[room:]
            self._crc = zlib.crc32(chunk, self._crc)
            self.payload_bytes += len(chunk)
            if len(chunk) == room:
                self._table.append(self._crc)
                self._crc = 0

    def table(self) -> bytes:
        """Little-endian CRC32 of each block; the last block may be short."""
        last = [self._crc] if self.payload_bytes % BLOCK_BYTES else []
        return np.array(self._table + last, "<u4").tobytes()


class BlockChecks:
    """Verifies the blocks of a mapped payload, each once."""

    def __init__(self, payload: Bytes, table: AnyArray) -> None:
        self._payload, self._table = payload, table
        self._verified = np.zeros(len(table), bool)
        self.unverified = len(table)
        """Number of blocks that have not been compared yet."""

    def check(self, starts: IntArray, ends: IntArray, on_damage: Callable[[int], NoReturn]) -> None:
        """Verify the blocks that contain the byte ranges starts .. ends.

        Calls `on_damage(block)`, which raises, for the first block that differs.
        """
        if self.unverified == 0:
            return
        filled = ends > starts
        first, last = starts[filled] // BLOCK_BYTES, (ends[filled] - 1) // BLOCK_BYTES
        if np.all(last - first < 2) and self._verified[first].all() and self._verified[last].all():
            return
        edges = np.zeros(len(self._verified) + 1, np.int64)
        np.add.at(edges, first, 1)
        np.add.at(edges, last + 1, -1)
        for block in np.flatnonzero((edges.cumsum()[:-1] > 0) & ~self._verified).tolist():
            data = self._payload[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
            if zlib.crc32(data.data) != int(self._table[block]):
                on_damage(block)
            self._verified[block] = True
            self.unverified -= 1

    def check_all(self, on_damage: Callable[[int], NoReturn]) -> None:
        self.check(np.zeros(1, np.int64), np.array([len(self._payload)]), on_damage)
