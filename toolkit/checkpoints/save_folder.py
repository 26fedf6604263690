"""The folder of a run's checkpoints: written whole or not at all, linked, removed.

A checkpoint is filled under a temporary name, synced to disk and renamed; `checkpoint_last` and
`checkpoint_best` are relative symbolic links, replaced in one step.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from toolkit.checkpoints import manifest
from toolkit.checkpoints.folder_lock import FolderLock
from toolkit.common.errors import ToolkitError

CHECKPOINT_NAME = re.compile(r"checkpoint_e(\d+)_u(\d+)")
LAST, BEST = "checkpoint_last", "checkpoint_best"
OLD_SUFFIX = ".old.tmp"
"""Ends the name of a checkpoint while another of the same name takes its place."""
RETRY_DELAYS_SECONDS = (1.0, 4.0)
"""Between the tries to write a checkpoint."""

log = logging.getLogger(__name__)


class CheckpointSaveError(ToolkitError):
    """A checkpoint could not be written; the older ones are as they were."""


def fsync_path(path: Path) -> None:
    """Return when the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parse_update(folder: Path) -> int:
    found = CHECKPOINT_NAME.fullmatch(folder.name)
    return int(found[2]) if found else -1


class SaveFolder:
    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, FolderLock(path)

    def prepare(self) -> None:
        """Make the folder, see that it can be written to, take it, and tidy up after a crash."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / f".probe.{os.getpid()}.tmp"
            with probe.open("wb") as file:
                file.write(bytes(4096))
                os.fsync(file.fileno())
            probe.unlink()
            self.lock.acquire()
        except OSError as error:
            raise ToolkitError(
                f"checkpoint.save_dir must be a folder that can be written to, but {self.path} "
                f"is not: {error.strerror}. Choose another with --save-dir."
            ) from None
        for old in self.path.glob(f".checkpoint*{OLD_SUFFIX}"):
            if not (name := self.path / old.name[1 : -len(OLD_SUFFIX)]).exists():
                old.rename(name)
        self.delete_leftovers()

    def delete_leftovers(self) -> None:
        """Remove what a crash, or a removal that failed, left behind."""
        for stale in [*self.path.glob(".checkpoint*.tmp"), *self.path.glob(".probe*.tmp")]:
            try_delete(stale)

    def close(self) -> None:
        """Let another run take the folder."""
        self.lock.release()

    def write(self, name: str, fill: Callable[[Path], None], facts: Mapping[str, Any]) -> Path:
        """Write a checkpoint; tried again after a pause, since disks and networks have moods."""
        for pause in (*RETRY_DELAYS_SECONDS, None):
            try:
                return self.write_once(name, fill, facts)
            except (OSError, SafetensorError) as error:
                try_delete(self.temporary_path(name))
                if pause is None:
                    raise CheckpointSaveError(
                        f"checkpoint {self.path / name} must be written to disk, but could not "
                        f"be: {error}. Make room or repair the disk; older checkpoints are whole."
                    ) from error
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def temporary_path(self, name: str) -> Path:
        return self.path / f".{name}.{os.getpid()}.tmp"

    def write_once(self, name: str, fill: Callable[[Path], None], facts: Mapping[str, Any]) -> Path:
        temporary, target = self.temporary_path(name), self.path / name
        delete(temporary)
        temporary.mkdir()
        fill(temporary)
        manifest.write(temporary, facts)
        for file in temporary.rglob("*"):
            fsync_path(file)
        fsync_path(temporary)
        old = self.path / f".{name}{OLD_SUFFIX}"
        if target.exists():
            delete(old)
            target.rename(old)
        temporary.rename(target)
        fsync_path(self.path)
        try_delete(old)
        return target

    def link(self, link: str, target: str) -> None:
        """Point a link at a checkpoint beside it, in one step."""
        temporary = self.path / f".{link}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(self.path / link)
        fsync_path(self.path)

    def resolve_link(self, link: str) -> Path | None:
        """What a link points at, if that is there."""
        path = self.path / link
        return self.path / os.readlink(path) if path.is_symlink() and path.exists() else None

    def checkpoints(self) -> list[Path]:
        """All checkpoints, newest first by their update, whatever the clocks say."""
        if not self.path.is_dir():
            return []
        found = [path for path in self.path.iterdir() if CHECKPOINT_NAME.fullmatch(path.name)]
        return sorted(found, key=parse_update, reverse=True)

    def resume_candidates(self) -> list[Path]:
        """What to go on from, in the order to try: the last one, then all others, newest first."""
        last = self.resolve_link(LAST)
        return [*([last] if last else []), *(p for p in self.checkpoints() if p != last)]

    def delete_checkpoints(self, folders: Iterable[Path]) -> None:
        """Remove checkpoints, but none that a link points at; what fails is tried again later."""
        spared = {self.resolve_link(LAST), self.resolve_link(BEST)}
        self.delete_leftovers()
        for folder in folders:
            if folder not in spared:
                try_delete(folder)


def delete(path: Path) -> None:
    """Remove a folder or file if it is there; under another name first, so never half of it."""
    if path.is_dir() and not path.is_symlink():
        if not path.name.endswith(".tmp"):
            path = path.rename(path.with_name(f".{path.name}.gone.tmp"))
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def try_delete(path: Path) -> None:
    """Remove, or tell why not: training goes on, and the next `tidy` tries again."""
    try:
        delete(path)
    except OSError as error:
        log.warning("%s could not be removed (%s); it is tried again later.", path, error)
