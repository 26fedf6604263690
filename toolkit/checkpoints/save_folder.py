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
from toolkit.checkpoints.folder_lock import Lock
from toolkit.common.errors import ToolkitError

NAME = re.compile(r"checkpoint_e(\d+)_u(\d+)")
LAST, BEST = "checkpoint_last", "checkpoint_best"
OLD = ".old.tmp"
"""Ends the name of a checkpoint while another of the same name takes its place."""
PAUSES_SECONDS = (1.0, 4.0)
"""Between the tries to write a checkpoint."""

log = logging.getLogger(__name__)


class NotSaved(ToolkitError):
    """A checkpoint could not be written; the older ones are as they were."""


def sync(path: Path) -> None:
    """Return when the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def update_of(folder: Path) -> int:
    found = NAME.fullmatch(folder.name)
    return int(found[2]) if found else -1


class SaveFolder:
    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, Lock(path)

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
        for old in self.path.glob(f".checkpoint*{OLD}"):
            if not (name := self.path / old.name[1 : -len(OLD)]).exists():
                old.rename(name)
        self.tidy()

    def tidy(self) -> None:
        """Remove what a crash, or a removal that failed, left behind."""
        for stale in [*self.path.glob(".checkpoint*.tmp"), *self.path.glob(".probe*.tmp")]:
            discard(stale)

    def close(self) -> None:
        """Let another run take the folder."""
        self.lock.release()

    def write(self, name: str, fill: Callable[[Path], None], facts: Mapping[str, Any]) -> Path:
        """Write a checkpoint; tried again after a pause, since disks and networks have moods."""
        for pause in (*PAUSES_SECONDS, None):
            try:
                return self.write_once(name, fill, facts)
            except (OSError, SafetensorError) as error:
                discard(self.temporary(name))
                if pause is None:
                    raise NotSaved(
                        f"checkpoint {self.path / name} must be written to disk, but could not "
                        f"be: {error}. Make room or repair the disk; older checkpoints are whole."
                    ) from error
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def temporary(self, name: str) -> Path:
        return self.path / f".{name}.{os.getpid()}.tmp"

    def write_once(self, name: str, fill: Callable[[Path], None], facts: Mapping[str, Any]) -> Path:
        temporary, target = self.temporary(name), self.path / name
        remove(temporary)
        temporary.mkdir()
        fill(temporary)
        manifest.seal(temporary, facts)
        for file in temporary.rglob("*"):
            sync(file)
        sync(temporary)
        old = self.path / f".{name}{OLD}"
        if target.exists():
            remove(old)
            target.rename(old)
        temporary.rename(target)
        sync(self.path)
        discard(old)
        return target

    def link(self, link: str, target: str) -> None:
        """Point a link at a checkpoint beside it, in one step."""
        temporary = self.path / f".{link}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(self.path / link)
        sync(self.path)

    def target(self, link: str) -> Path | None:
        """What a link points at, if that is there."""
        path = self.path / link
        return self.path / os.readlink(path) if path.is_symlink() and path.exists() else None

    def checkpoints(self) -> list[Path]:
        """All checkpoints, newest first by their update, whatever the clocks say."""
        if not self.path.is_dir():
            return []
        found = [path for path in self.path.iterdir() if NAME.fullmatch(path.name)]
        return sorted(found, key=update_of, reverse=True)

    def candidates(self) -> list[Path]:
        """What to go on from, in the order to try: the last one, then all others, newest first."""
        last = self.target(LAST)
        return [*([last] if last else []), *(p for p in self.checkpoints() if p != last)]

    def drop(self, folders: Iterable[Path]) -> None:
        """Remove checkpoints, but none that a link points at; what fails is tried again later."""
        spared = {self.target(LAST), self.target(BEST)}
        self.tidy()
        for folder in folders:
            if folder not in spared:
                discard(folder)


def remove(path: Path) -> None:
    """Remove a folder or file if it is there; under another name first, so never half of it."""
    if path.is_dir() and not path.is_symlink():
        if not path.name.endswith(".tmp"):
            path = path.rename(path.with_name(f".{path.name}.gone.tmp"))
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Remove, or tell why not: training goes on, and the next `tidy` tries again."""
    try:
        remove(path)
    except OSError as error:
        log.warning("%s could not be removed (%s); it is tried again later.", path, error)
