"""The optional package pyarrow, and the Zstandard files that it decompresses."""

from __future__ import annotations

import importlib
import io
from types import ModuleType
from typing import Any, BinaryIO

from toolkit.common.errors import ToolkitError

BUFFER_BYTES = 1 << 20


def import_pyarrow(module: str = "") -> ModuleType:
    """pyarrow or one of its modules, imported when first needed."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError as error:
        raise ToolkitError(
            "Parquet, Arrow and .zst files require the package pyarrow, which is not installed. "
            "Run pip install 'toolkit-seq[data]'."
        ) from error


def open_zst(file: BinaryIO) -> io.BufferedReader:
    """The decompressed bytes of a file; reading a truncated or damaged one raises EOFError."""
    return io.BufferedReader(_ZstReader(file), BUFFER_BYTES)


class _ZstReader(io.RawIOBase):
    """pyarrow notices truncated files, unlike the package zstandard."""

    def __init__(self, file: BinaryIO) -> None:
        arrow = import_pyarrow()
        self._stream = arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except OSError as error:
            raise EOFError(str(error)) from error
        buffer[: len(data)] = data
        return len(data)
