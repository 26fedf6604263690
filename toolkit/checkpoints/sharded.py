"""The files of a sharded run's checkpoint: one per rank, written in parallel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from toolkit.checkpoints.save_folder import CheckpointSaveError, SaveFolder, retry
from toolkit.checkpoints.tensor_files import write_shard
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World

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
    return sorted((checkpoint / SHARDED).glob("*.safetensors"))
