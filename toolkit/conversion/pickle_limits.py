"""Limits of files that torch.save wrote: their size, and that of the pickles in them.

The pickles are scanned, not loaded. A tuple that is a key is hashed with the items of its items,
which a few bytes can make endless or deeper than the stack.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import open_regular

MAX_OPERATIONS = 500_000
"""Of a pickle: enough for 10,000 tensors."""
MAX_TUPLE = 1000
"""Items of a tuple and of the tuples in it."""
OLD_PICKLES = 5
"""Pickles one after another at the start of a file before torch 1.6."""


@contextmanager
def open_checked(path: Path) -> Iterator[BinaryIO]:
    """A file with bounded pickles, which takes about as much memory as on disk."""
    with open_regular(path) as file:
        for pickle in list_pickles(path, file):
            reason = find_excess(pickle)
            if reason:
                raise ToolkitError(
                    f"{path} must contain a model, but its pickle has {reason}. Name a file that "
                    f"save_pretrained or fairseq wrote."
                )
        file.seek(0)
        yield file


def list_pickles(path: Path, file: BinaryIO) -> Iterator[bytes | BinaryIO]:
    """The pickle of an archive, or those of an old file."""
    is_archive = file.read(4) == b"PK\x03\x04"
    file.seek(0)
    if not is_archive:
        yield from [file] * OLD_PICKLES
        return
    with zipfile.ZipFile(file) as archive:
        members, size = archive.infolist(), path.stat().st_size
        total = sum(member.file_size for member in members)
        if total > size:
            raise ToolkitError(
                f"{path} must not be compressed, but expands from {size:,} to {total:,} bytes. "
                f"Save the model again with torch.save."
            )
        for member in members:
            if member.filename.lower().endswith("data.pkl"):
                yield archive.read(member)


def find_excess(pickle: bytes | BinaryIO) -> str:
    """What a pickle has too much of; empty if nothing."""
    sizes: list[int] = []  # of the values on the stack: items of tuples and of tuples in them
    marks: list[int] = []
    memo: dict[object, int] = {}
    for number, (operation, argument, _) in enumerate(pickletools.genops(pickle)):
        if number == MAX_OPERATIONS:
            return f"more than {MAX_OPERATIONS:,} operations"
        name, before = operation.name, operation.stack_before
        if name == "MARK":
            marks.append(len(sizes))
        elif "PUT" in name or name == "MEMOIZE":
            memo[len(memo) if argument is None else argument] = sizes[-1]
        elif "GET" in name:
            sizes.append(memo[argument])
        else:
            is_marked = pickletools.markobject in before
            below = before.index(pickletools.markobject) if is_marked else len(before)
            start = (marks.pop() if is_marked else len(sizes)) - below
            size = 1 + sum(sizes[start:]) if "TUPLE" in name or name == "DUP" else 1
            if size > MAX_TUPLE:
                return f"a tuple of more than {MAX_TUPLE:,} items"
            sizes[start:] = [size] * len(operation.stack_after)
    return ""
