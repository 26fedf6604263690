"""The shares that the ranks of a sharded run write of one checkpoint, side by side."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor

from toolkit.checkpoints.save_folder import RETRY_DELAYS_SECONDS, CheckpointSaveError, SaveFolder
from toolkit.checkpoints.tensor_files import write_shard
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World

SHARDED = "sharded"
"""Folder of the shares within a checkpoint; beside it lies the whole set of weights."""


def write_rank_shard(
    save_folder: SaveFolder, name: str, tensors: Mapping[str, Tensor], world: World
) -> Path:
    """Each rank writes its rows into a folder that the checkpoint then adopts; all ranks call.

    NotSaved on all ranks where one could not write.
    """
    folder = save_folder.path / f".{name}.{SHARDED}.tmp"
    file = folder / f"share_{world.rank + 1:05}_of_{world.size:05}.safetensors"

    def put() -> None:
        folder.mkdir(exist_ok=True)
        write_shard(file, tensors, is_main=world.is_main)

    problem = retry(put)
    mine = f"rank {world.rank} could not write {file}: {problem}" if problem else ""
    if problem := next(filter(None, world.all_gather(mine)), ""):
        raise CheckpointSaveError(
            f"checkpoint {save_folder.path / name} must be written to disk by all ranks, but "
            f"{problem}. "
            f"Make room or repair the disk; older checkpoints are whole."
        )
    return folder


def retry(attempt: Callable[[], None]) -> str:
    """What went wrong, after a few tries; empty where it went well."""
    for pause in (*RETRY_DELAYS_SECONDS, None):
        try:
            attempt()
            break
        except (OSError, SafetensorError) as error:
            if pause is None:
                return str(error)
            time.sleep(pause)
    return ""


def link_shards(source: Path, checkpoint: Path, ranks: int) -> None:
    """Take the ranks' files into a checkpoint, and leave them where they are for another try."""
    files = sorted(source.iterdir())
    if len(files) != ranks:
        raise ToolkitError(
            f"checkpoint.save_dir must be one folder for all ranks, but {source} holds the shares "
            f"of {len(files)} of {ranks}. Put it on a disk that all machines share."
        )
    (checkpoint / SHARDED).mkdir()
    for file in files:
        try:
            os.link(file, checkpoint / SHARDED / file.name)
        except OSError:  # a disk without hard links
            shutil.copyfile(file, checkpoint / SHARDED / file.name)


def list_shards(checkpoint: Path) -> list[Path]:
    """The files that the ranks wrote; none where the run was not sharded."""
    return sorted((checkpoint / SHARDED).glob("*.safetensors"))
