"""The save folder of a run: atomic checkpoints, links to them, and their deletion.

A checkpoint is written under a temporary name, synced to disk and renamed. `checkpoint_last` and
`checkpoint_best` are relative symbolic links, replaced atomically. The manifest of a checkpoint has
the SHA-256 of each of its files, and of itself.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from safetensors import SafetensorError

from toolkit.common.errors import ToolkitError
from toolkit.common.files import (
    atomic_dir,
    atomic_file,
    delete,
    is_inside,
    name_errors,
    read_bytes,
    sync_to_disk,
)
from toolkit.common.json_files import (
    MAX_BYTES,
    Count,
    JsonObject,
    convert,
    decode,
    name_file,
    sha256,
    sha256_file,
)
from toolkit.common.system import FolderLock
from toolkit.config.command import MANIFEST, SavedRun
from toolkit.config.values import CONFIG, read_saved_config

CHECKPOINT_NAME = re.compile(r"checkpoint_e(\d+)_u(\d+)")
LAST, BEST = "checkpoint_last", "checkpoint_best"
OLD_SUFFIX = ".old.tmp"
"""Suffix of a checkpoint while another of the same name replaces it (common/files.py)."""
RETRY_DELAYS_SECONDS = (1.0, 4.0)
"""Delays between attempts to write a checkpoint."""

log = logging.getLogger(__name__)


class CheckpointSaveError(ToolkitError):
    """A checkpoint could not be written; the older ones are unchanged."""


def checkpoint_name(epoch: int, update: int) -> str:
    """The name of a run's checkpoint."""
    return f"checkpoint_e{epoch}_u{update}"


def parse_update(folder: Path) -> int:
    """The update in a checkpoint's name; -1 for other names."""
    match = CHECKPOINT_NAME.fullmatch(folder.name)
    return int(match[2]) if match else -1


def retry(attempt: Callable[[], object]) -> str:
    """Try a write three times, for transient I/O errors; returns the last error, or ""."""
    for delay in (*RETRY_DELAYS_SECONDS, 0.0):
        try:
            attempt()
            return ""
        except (OSError, SafetensorError) as error:
            problem = str(error)
            time.sleep(delay)
    return problem


class SaveFolder:
    """The checkpoints of one run."""

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, FolderLock(path)

    def prepare(self) -> None:
        """Create and lock the folder, check that it is writable, and clean up after a crash."""
        self.path.mkdir(parents=True, exist_ok=True)
        probe = self.path / f".probe.{os.getpid()}.tmp"
        with name_errors(self.path), probe.open("wb") as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())
        probe.unlink()
        self.lock.acquire()
        for old in self.path.glob(f".checkpoint*{OLD_SUFFIX}"):
            if not (name := self.path / old.name[1 : -len(OLD_SUFFIX)]).exists():
                old.rename(name)
        self.delete_leftovers()
        self.restore_links()

    def restore_links(self) -> None:
        """Turn copies of checkpoints back into links: scp -r, zip and cloud storage follow links.

        A copy whose checkpoint is missing or damaged takes its place.
        """
        for link in (LAST, BEST):
            copy = self.path / link
            if copy.is_symlink() or not (copy / MANIFEST).exists():
                continue
            facts = verify_checkpoint(copy)
            original = self.path / checkpoint_name(facts.epoch, facts.update)
            try:
                verify_checkpoint(original)
                delete(copy)
            except ToolkitError:
                delete(original)
                copy.rename(original)
            self.link(link, original.name)

    def delete_leftovers(self) -> None:
        """Delete temporary files of crashes and of failed deletions."""
        for leftover in [*self.path.glob(".checkpoint*.tmp"), *self.path.glob(".probe*.tmp")]:
            try_delete(leftover)

    def write(
        self,
        name: str,
        fill: Callable[[Path], None],
        facts: Mapping[str, object],
        *,
        replace: bool = True,
    ) -> Path:
        """Write a checkpoint with `fill`, and a manifest of `facts`; retried after I/O errors."""

        def write_once() -> None:
            with atomic_dir(self.path / name, sync=True, replace=replace) as folder:
                fill(folder)
                write_manifest(folder, facts)

        if problem := retry(write_once):
            raise CheckpointSaveError(
                f"checkpoint {self.path / name} must be written to disk, but could not be: "
                f"{problem}. Free some space or repair the disk; older checkpoints are complete."
            )
        return self.path / name

    def link(self, link: str, target: str) -> None:
        """Point a link at a checkpoint of this folder."""
        with atomic_file(self.path / link) as temporary:
            temporary.symlink_to(target)
        sync_to_disk(self.path)

    def resolve_link(self, link: str) -> Path | None:
        """The checkpoint that a link points at, or that took its place, if it exists."""
        path = self.path / link
        if not (path / MANIFEST).exists():
            return None
        return self.path / os.readlink(path) if path.is_symlink() else path

    def checkpoints(self) -> list[Path]:
        """All checkpoints, newest first by their update, regardless of file dates."""
        paths = self.path.iterdir() if self.path.is_dir() else ()
        checkpoints = [path for path in paths if CHECKPOINT_NAME.fullmatch(path.name)]
        return sorted(checkpoints, key=parse_update, reverse=True)

    def resume_candidates(self) -> list[Path]:
        """Checkpoints to try to resume from: checkpoint_last, then all others, newest first."""
        last = self.resolve_link(LAST)
        return [*([last] if last else []), *(p for p in self.checkpoints() if p != last)]

    def contains(self, checkpoint: Path) -> bool:
        """Whether a checkpoint is one of this folder."""
        return Path(os.path.realpath(checkpoint)).parent == Path(os.path.realpath(self.path))

    def choose_restore_file(self, path: Path) -> Path | None:
        """The checkpoint that --restore-file names, or the last one of the save folder it names.

        None if it is to be ignored: if this folder has checkpoints, the run resumes from its own,
        so that the same command may be given again after an interruption.
        """
        if not (path / MANIFEST).exists():
            path = SaveFolder(path).resolve_link(LAST) or path
        return path if self.contains(path) or not self.checkpoints() else None

    def delete_checkpoints(self, folders: Iterable[Path]) -> None:
        """Delete checkpoints unless a link points at them; later saves retry failed deletions."""
        linked = {self.resolve_link(LAST), self.resolve_link(BEST)}
        self.delete_leftovers()
        for folder in folders:
            if folder not in linked:
                try_delete(folder)


def try_delete(path: Path) -> None:
    """Delete, or log why not; the next `delete_leftovers` tries again."""
    try:
        delete(path)
    except OSError as error:
        log.warning("%s could not be deleted (%s); will retry later.", path, error)


def check_new_folder(path: Path, option: str) -> None:
    """Raise unless `path` is new and cannot be confused with a checkpoint of a run."""
    if path.exists() or path.is_symlink():
        raise ToolkitError(
            f"{option} must name a new folder, but {path} exists. Choose another, or delete it."
        )
    if CHECKPOINT_NAME.fullmatch(path.name) or path.name in (LAST, BEST):
        raise ToolkitError(
            f"{option} cannot be called {path.name}, as the checkpoints of a run are. Choose "
            f"another name."
        )
    if not path.parent.is_dir():
        raise ToolkitError(f"No such folder: {path.parent}. Create it, or choose another {option}.")


def find_saved_run(save_dir: str, restore_file: str) -> SavedRun | None:
    """The run of the checkpoint to resume from, with verified options; None if there is none.

    Damaged checkpoints are skipped here, and reported by the run.
    """
    save_folder = SaveFolder(Path(save_dir))
    named = save_folder.choose_restore_file(Path(restore_file)) if restore_file else None
    for folder in [named] if named else save_folder.resume_candidates():
        with suppress(ToolkitError):
            verify_checkpoint(folder, only=(CONFIG,))
            options = read_saved_config(folder).run
            return SavedRun(options, str(folder), in_save_dir=save_folder.contains(folder))
    return None


MANIFEST_FORMAT = 1
MAX_FILES = 10_000
REMEDY = "Use another checkpoint."


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What manifest.json says of a checkpoint."""

    format: Count
    files: Annotated[dict[str, str], Meta(max_length=MAX_FILES)]
    """File -> its SHA-256."""
    update: Count = 0
    epoch: Count = 0
    words: Count | None = None
    """Words seen, if they were counted."""
    reasons: list[str] = field(default_factory=list)
    """Why it was saved."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the toolkit and torch that wrote it."""
    averaged: list[str] = field(default_factory=list)
    """The checkpoints that it is the mean of."""
    converted: str = ""
    """The model that it was converted from."""
    base: dict[str, str] = field(default_factory=dict)
    """`folder`, `file` and `digest` of the weights that its adapters change; empty without."""
    metadata: JsonObject = field(default_factory=dict)
    """What the user added."""


def manifest_text(facts: Mapping[str, object]) -> str:
    """The facts as JSON with their digest, so that every change is detected."""
    text = json.dumps(facts, indent=1, sort_keys=True)
    return json.dumps({**facts, "digest": sha256(text)}, indent=1, sort_keys=True) + "\n"


def write_manifest(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the manifest of a folder whose other files are complete."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}
    (folder / MANIFEST).write_text(
        manifest_text({**facts, "format": MANIFEST_FORMAT, "files": files}), "utf-8"
    )


def read_manifest(folder: Path) -> Manifest:
    """The manifest, verified by its own digest."""
    path = folder / MANIFEST
    if not os.path.lexists(path):
        remedy = "Name a folder that toolkit-train wrote."
        if (folder / "config.json").exists():
            remedy = "If it is a model of Transformers, run toolkit-convert import first."
        raise ToolkitError(
            f"a checkpoint must be a folder with a {MANIFEST}, but {folder} has none. {remedy}"
        )
    with name_file(path, REMEDY):
        text = read_bytes(path, MAX_BYTES).decode()
        facts = decode(text, JsonObject)
    if not facts.pop("digest", None) or text != manifest_text(facts):
        raise ToolkitError(
            f"the manifest of checkpoint {folder} must be as it was written, but is damaged. "
            f"{REMEDY}"
        )
    with name_file(path, REMEDY):
        version = convert(facts.get("format"), int)
        if version > MANIFEST_FORMAT:
            raise ToolkitError(
                f"checkpoint {folder} has format {version}, but this toolkit reads formats up to "
                f"{MANIFEST_FORMAT}. Upgrade the toolkit."
            )
        return convert(facts, Manifest)


def verify_checkpoint(
    folder: Path, only: Sequence[str] | None = None, optional: Sequence[str] = ()
) -> Manifest:
    """The manifest, after comparing all files, or only some, with their digests.

    Files that match a pattern of `optional` may be missing; none may lie outside of the folder.
    """
    facts = read_manifest(folder)
    files = {name: facts.files.get(name) for name in only} if only else facts.files
    for name, digest in files.items():
        path = folder / name
        if not is_inside(path, folder) or Path(name).is_absolute():
            raise ToolkitError(
                f"{folder / MANIFEST} must name files of its own folder, but names {name[:80]!r}. "
                f"toolkit-train writes no such checkpoint: do not use it."
            )
        if not path.exists() and any(fnmatchcase(name, pattern) for pattern in optional):
            continue
        with name_file(path, REMEDY):
            actual = sha256_file(path)
        if actual != digest:
            raise ToolkitError(
                f"{path} must have the digest in its {MANIFEST}, but is damaged. {REMEDY}"
            )
    return facts
