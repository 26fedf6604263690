"""The shares that the ranks of a sharded run write of one checkpoint, side by side."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor

from toolkit.checkpoints.save_folder import PAUSES_SECONDS, NotSaved, SaveFolder
from toolkit.checkpoints.tensor_files import write_share
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World

SHARED = "sharded"
"""Folder of the shares within a checkpoint; beside it lies the whole set of weights."""


def write(saves: SaveFolder, name: str, tensors: Mapping[str, Tensor], world: World) -> Path:
    """Each rank writes its rows into a folder that the checkpoint then adopts; all ranks call.

    NotSaved on all ranks where one could not write.
    """
    folder = saves.path / f".{name}.{SHARED}.tmp"
    file = folder / f"share_{world.rank + 1:05}_of_{world.size:05}.safetensors"

    def put() -> None:
        folder.mkdir(exist_ok=True)
        write_share(file, tensors, first=world.first)

    problem = tried(put)
    mine = f"rank {world.rank} could not write {file}: {problem}" if problem else ""
    if problem := next(filter(None, world.gather(mine)), ""):
        raise NotSaved(
            f"checkpoint {saves.path / name} must be written to disk by all ranks, but {problem}. "
            f"Make room or repair the disk; older checkpoints are whole."
        )
    return folder


def tried(put: Callable[[], None]) -> str:
    """What went wrong, after a few tries; empty where it went well."""
    for pause in (*PAUSES_SECONDS, None):
        try:
            put()
            break
        except (OSError, SafetensorError) as error:
            if pause is None:
                return str(error)
            time.sleep(pause)
    return ""


def adopt(written: Path, checkpoint: Path, ranks: int) -> None:
    """Take the ranks' files into a checkpoint, and leave them where they are for another try."""
    files = sorted(written.iterdir())
    if len(files) != ranks:
        raise ToolkitError(
            f"checkpoint.save_dir must be one folder for all ranks, but {written} holds the shares "
            f"of {len(files)} of {ranks}. Put it on a disk that all machines share."
        )
    (checkpoint / SHARED).mkdir()
    for file in files:
        try:
            os.link(file, checkpoint / SHARED / file.name)
        except OSError:  # a disk without hard links
            shutil.copyfile(file, checkpoint / SHARED / file.name)


def of(checkpoint: Path) -> list[Path]:
    """The files that the ranks wrote; none where the run was not sharded."""
    return sorted((checkpoint / SHARED).glob("*.safetensors"))
