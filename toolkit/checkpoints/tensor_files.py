"""Tensors in safetensors files, whole or with their rows in the files of several ranks.

A sharded file has the layout of torch's distributed checkpoints in safetensors form, which
torch's HuggingFaceStorageReader opens. torch's own save and load are not used: ranks exchange
their plans as pickles, and the other form has a pickled table of contents.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from toolkit.checkpoints.save_folder import CheckpointSaveError, SaveFolder, read_manifest, retry
from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import Count, decode
from toolkit.distributed import World
from toolkit.distributed.data_parallel import is_sharded_tensor, local_rows, shard_like, to_local

OFFSETS_KEY, STARTS_KEY = "DCP_SHARDING_INFO", "saved_offsets"
"""In a file's metadata, and in the JSON there: first row of each tensor in the whole."""


@contextmanager
def open_file(path: Path) -> Iterator[Any]:
    """A safetensors file; unreadable content raises ToolkitError."""
    try:
        open_regular(path).close()
        with safe_open(path, "pt") as file:
            yield file
    except ToolkitError:
        raise
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise ToolkitError(
            f"{path} must hold safetensors, but does not: {error}. Use another file."
        ) from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file."""
    with open_file(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


def read_shapes(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and dtype of each tensor of a file; only the header is read."""
    with open_file(path) as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (tuple(it.get_shape()), it.get_dtype()) for name, it in slices.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name to a safetensors file."""
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)


TensorChunk = tuple[int, tuple[int, ...], Path]
"""Consecutive rows of a tensor: the first one, their shape, and their file."""


class LazyTensor:
    """A tensor in one or more files; only indexed rows are read: `t[3:5]`, `t[...]`."""

    def __init__(self, name: str, chunks: Iterable[TensorChunk]) -> None:
        self.name, self.chunks = name, sorted(chunks)
        count, (_, first, _) = 0, self.chunks[0]
        for start, shape, file in self.chunks:
            fits = shape[1:] == first[1:] and start == count
            if not fits or (not shape and len(self.chunks) > 1):
                raise ToolkitError(
                    f"{file} must continue with row {count} of {name}, but has shape "
                    f"{list(shape)} from row {start}. Use another checkpoint."
                )
            count += shape[0] if shape else 0
        self.shape = torch.Size([count, *first[1:]] if first else [])

    def __getitem__(self, rows: slice | EllipsisType) -> Tensor:
        if isinstance(rows, EllipsisType):
            return self[:] if self.shape else read_chunk(self.name, self.chunks[0][2], None)
        low, high, _ = rows.indices(self.shape[0])
        overlaps = [
            (file, slice(max(0, low - start), min(shape[0], high - start)))
            for start, shape, file in self.chunks
            if start < high and low < start + shape[0]
        ]
        overlaps = overlaps or [(self.chunks[0][2], slice(0, 0))]
        parts = [read_chunk(self.name, file, inner) for file, inner in overlaps]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def open_tensors(files: Iterable[Path]) -> dict[str, LazyTensor]:
    """The tensors of several files by name; only the headers are read."""
    chunks: dict[str, list[TensorChunk]] = {}
    for path in files:
        with open_file(path) as file:
            metadata = (file.metadata() or {}).get(OFFSETS_KEY, "{}")
            offsets = decode(metadata, dict[str, dict[str, list[Count]]])
            for name in file.keys():  # noqa: SIM118 - no mapping
                shape = tuple(file.get_slice(name).get_shape())
                start = offsets[name][STARTS_KEY][0] if shape and offsets else 0
                chunks.setdefault(name, []).append((start, shape, path))
    return {name: LazyTensor(name, parts) for name, parts in chunks.items()}


def read_chunk(name: str, path: Path, rows: slice | None) -> Tensor:
    """Some rows of the tensor of this name in a file; None reads a scalar."""
    with open_file(path) as file:
        return file.get_tensor(name) if rows is None else file.get_slice(name)[rows]


def write_shard(path: Path, tensors: Mapping[str, Tensor], *, is_main: bool) -> None:
    """Write this rank's rows of sharded tensors, and on the main rank all others, to disk."""
    mine: dict[str, Tensor] = {}
    offsets: dict[str, dict[str, list[int]]] = {}
    for name, tensor in tensors.items():
        rows = to_local(tensor.detach()).contiguous().cpu()
        if rows.numel() if is_sharded_tensor(tensor) else is_main:
            mine[name] = rows
            local = local_rows(tensor)
            start = local.start if isinstance(local, slice) else 0
            offsets[name] = {STARTS_KEY: [start, *[0] * (rows.dim() - 1)][: rows.dim()]}
    save_file(mine, path, {OFFSETS_KEY: json.dumps(offsets), "DCP_VERSION": "1.0", "format": "pt"})
    with path.open("rb") as file:
        os.fsync(file.fileno())


SEPARATOR = "::"
"""Separates the names of parameter and quantity."""


def collect_state(optimizer: Optimizer, learner: nn.Module) -> dict[str, Tensor]:
    """`parameter::quantity` -> its value; a Python number becomes a float64 scalar."""
    state: dict[str, Tensor] = {}
    for name, p in learner.named_parameters():
        for quantity, value in optimizer.state.get(p, {}).items():
            tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.double)
            state[f"{name}{SEPARATOR}{quantity}"] = tensor.detach().contiguous()
    return state


def restore(
    optimizer: Optimizer, learner: nn.Module, saved: Mapping[str, Tensor | LazyTensor]
) -> None:
    """Restore each parameter's state by its name; of sharded parameters, this rank's rows."""
    parameters = dict(learner.named_parameters())
    states: dict[str, dict[str, Any]] = {}
    for key, value in saved.items():
        name, separator, quantity = key.rpartition(SEPARATOR)
        if not separator:
            continue  # a parameter, which shards also contain
        if name not in parameters:
            raise ToolkitError(
                f"the optimizer's state must belong to this learner, but {name!r} is not a "
                f"parameter of it. Load only the weights with --finetune-from."
            )
        p, state = parameters[name], states.setdefault(name, {})
        if value.shape and value.shape[:1] == p.shape[:1]:
            state[quantity] = shard_like(p, value[local_rows(p)])
        else:
            tensor = value[...]
            is_number = tensor.dtype == torch.double and not tensor.dim()
            state[quantity] = float(tensor) if is_number else tensor.to(p.device)
    for name in states:
        optimizer.state[parameters[name]] = states[name]


SHARDED = "sharded"
"""Folder of the ranks' files in a checkpoint, alongside the complete weights."""


def write_rank_shard(
    save_folder: SaveFolder, name: str, tensors: Mapping[str, Tensor], world: World
) -> Path:
    """Write every rank's rows into a temporary folder for `link_shards`; all ranks must call it.

    Raises CheckpointSaveError on all ranks if one could not write.
    """
    folder = save_folder.path / f".{name}.{SHARDED}.tmp"
    file = folder / f"shard_{world.rank + 1:05}_of_{world.size:05}.safetensors"

    def write() -> None:
        folder.mkdir(exist_ok=True)
        write_shard(file, tensors, is_main=world.is_main)

    problem = retry(write)
    mine = f"rank {world.rank} could not write {file}: {problem}" if problem else ""
    if problem := world.first_text(mine):
        raise CheckpointSaveError(
            f"checkpoint {save_folder.path / name} must be written to disk by all ranks, but "
            f"{problem}. Free some space or repair the disk; older checkpoints are complete."
        )
    return folder


def link_shards(source: Path, checkpoint: Path, ranks: int) -> None:
    """Hard-link the ranks' files into a checkpoint; the originals remain for another attempt."""
    files = sorted(source.iterdir())
    if len(files) != ranks:
        raise ToolkitError(
            f"checkpoint.save_dir must be one folder for all ranks, but {source} holds the shards "
            f"of {len(files)} of {ranks}. Put it on a disk that all machines share."
        )
    (checkpoint / SHARDED).mkdir()
    for file in files:
        try:
            os.link(file, checkpoint / SHARDED / file.name)
        except OSError:  # a disk without hard links
            shutil.copyfile(file, checkpoint / SHARDED / file.name)


def list_shards(checkpoint: Path) -> list[Path]:
    """The files of the ranks; empty if the run was not sharded."""
    listed = read_manifest(checkpoint).files
    return [checkpoint / name for name in sorted(listed) if name.startswith(f"{SHARDED}/")]
