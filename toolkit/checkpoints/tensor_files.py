"""Tensors in files, whole or with their rows spread over the files of several ranks.

Each rank writes its rows as torch's distributed checkpoint would in its safetensors form, whose
HuggingFaceStorageReader opens them. Its own save and load are not called: with several ranks they
send their plans to each other as pickles, and their other form has a pickled table of contents.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import EllipsisType
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from toolkit.checkpoints import tensor_files
from toolkit.common.errors import ToolkitError
from toolkit.distributed.fsdp import local_rows, to_local

OFFSETS_KEY, STARTS_KEY = "DCP_SHARDING_INFO", "saved_offsets"
"""In a file's header, and in the JSON there: where the rows of each tensor begin in the whole."""


class TensorChunk(NamedTuple):
    """Consecutive rows of a tensor, and the file they are in."""

    start: int
    shape: tuple[int, ...]
    file: Path


class LazyTensor:
    """A tensor in one file or several, read as far as it is asked for: `rows[3:5]`, `rows[...]`."""

    def __init__(self, name: str, chunks: Iterable[TensorChunk]) -> None:
        self.name, self.chunks = name, sorted(chunks)
        count = 0
        for part in self.chunks:
            whole = part.shape[1:] == self.chunks[0].shape[1:] and part.start == count
            if not whole or (not part.shape and len(self.chunks) > 1):
                raise ToolkitError(
                    f"{part.file} must go on with row {count} of {name}, but has shape "
                    f"{list(part.shape)} from row {part.start}. Use another checkpoint."
                )
            count += part.shape[0] if part.shape else 0
        first = self.chunks[0].shape
        self.shape = torch.Size([count, *first[1:]] if first else [])

    def __getitem__(self, rows: slice | EllipsisType) -> Tensor:
        if isinstance(rows, EllipsisType):
            return self[:] if self.shape else read_chunk(self.name, self.chunks[0], None)
        begin, end, _ = rows.indices(self.shape[0])
        asked = [
            (part, slice(max(0, begin - part.start), min(part.shape[0], end - part.start)))
            for part in self.chunks
            if part.start < end and begin < part.start + part.shape[0]
        ]
        asked = asked or [(self.chunks[0], slice(0, 0))]
        found = [read_chunk(self.name, part, inner) for part, inner in asked]
        return found[0] if len(found) == 1 else torch.cat(found)


def open_tensors(files: Iterable[Path]) -> dict[str, LazyTensor]:
    """The tensors of some files by name; only the headers are read."""
    parts: dict[str, list[TensorChunk]] = {}
    for file in files:
        try:
            tensor_files.check_header(file)
            with safe_open(file, "pt") as tensors:
                offsets = json.loads((tensors.metadata() or {}).get(OFFSETS_KEY, "{}"))
                for name in tensors.keys():  # noqa: SIM118 - no mapping
                    shape = tuple(tensors.get_slice(name).get_shape())
                    begin = int(offsets[name][STARTS_KEY][0]) if shape and offsets else 0
                    parts.setdefault(name, []).append(TensorChunk(begin, shape, file))
        except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
            raise invalid_file_error(file, error) from None
    return {name: LazyTensor(name, some) for name, some in parts.items()}


def read_chunk(name: str, chunk: TensorChunk, rows: slice | None) -> Tensor:
    try:
        with safe_open(chunk.file, "pt") as tensors:
            if rows is None:
                return tensors.get_tensor(name)
            return tensors.get_slice(name)[rows]
    except (SafetensorError, OSError) as error:
        raise invalid_file_error(chunk.file, error) from None


def invalid_file_error(file: Path, error: Exception) -> ToolkitError:
    return ToolkitError(f"{file} must hold safetensors, but does not: {error}.")


def write_shard(path: Path, tensors: Mapping[str, Tensor], *, is_main: bool) -> None:
    """Write this rank's rows of all tensors, and what is not sharded on the first rank; synced."""
    mine: dict[str, Tensor] = {}
    offsets: dict[str, Any] = {}
    for name, tensor in tensors.items():
        rows = to_local(tensor.detach()).contiguous().cpu()
        if rows.numel() if isinstance(tensor, DTensor) else is_main:
            mine[name] = rows
            begin = local_rows(tensor)
            start = begin.start if isinstance(begin, slice) else 0
            offsets[name] = {STARTS_KEY: [start, *[0] * (rows.dim() - 1)][: rows.dim()]}
    header = {OFFSETS_KEY: json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"}
    save_file(mine, path, header)
    with path.open("rb") as file:
        os.fsync(file.fileno())


LENGTH_BYTES = 8
MAX_HEADER_BYTES = 4 << 20
"""Some 30,000 tensors with long names; files made to harm list millions that hold nothing."""


def check_header(path: Path) -> None:
    """Raise ToolkitError where the header is longer than the file, or than any of ours."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        size = file.seek(0, 2)
    if length + LENGTH_BYTES > size:
        raise ToolkitError(
            f"{path} must hold the {length:,} bytes of its header, but has {size:,} in all. "
            f"Use another checkpoint."
        )
    if length > MAX_HEADER_BYTES:
        raise ToolkitError(
            f"the header of {path} must have at most {MAX_HEADER_BYTES:,} bytes, but has "
            f"{length:,}. "
            f"Use another checkpoint."
        )
