"""Lines that a person types or a file has, and files for what is made of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, BinaryIO

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import check_distinct_files
from toolkit.data.text_files import DECOMPRESSION_ERRORS, DECOMPRESSORS


@contextmanager
def open_input(path: str, hint: str) -> Iterator[BinaryIO]:
    """The input as bytes, unpacked: what is not UTF-8 is a matter of its line alone.

    At a terminal, `hint` says what to type.
    """
    if path == "-":
        if sys.stdin.isatty():
            print(f"{hint}; end with Ctrl-D.", file=sys.stderr)
        yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise ToolkitError(
            f"--input must be a readable file or -, but {path}: {error.strerror}."
        ) from error
    with file, DECOMPRESSORS.get(Path(path).suffix, nullcontext)(file) as lines:
        try:
            yield lines
        except DECOMPRESSION_ERRORS as error:
            raise ToolkitError(
                f"--input must be whole, but {path} is cut off or damaged: {error}. Unpack or copy "
                f"it again."
            ) from error


def check_results_path(source: str, *results: Path, json: str | None = None) -> None:
    """What is read must not be written over, nor one file twice; `source` is --input."""
    for path in results:
        figures = None if json == "-" else json
        check_distinct_files([("--json", figures), ("--results-path", path)])
        if source != "-" and path.exists() and path.samefile(source):
            raise ToolkitError(
                f"--results-path must leave the input alone, but would write over {path}. Choose "
                f"another name."
            )


def open_results(path: Path) -> IO[str]:
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise ToolkitError(
            f"--results-path must be writable, but {path}: {error.strerror}."
        ) from error
