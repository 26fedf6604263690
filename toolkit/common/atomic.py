"""Files and folders that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def temporary_path(path: Path) -> Path:
    """Hidden sibling of `path` for this process to write to before it is renamed."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextmanager
def atomic_file(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A path to write to, which replaces `path` if the block ends without an error.

    With `sync`, the content is on disk first.
    """
    temporary = temporary_path(path)
    try:
        yield temporary
        if sync:
            sync_to_disk(temporary)
        temporary.replace(path)
        if sync:
            sync_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A new folder to fill, which replaces `path` if the block ends without an error.

    Its files have the permissions of new files, also those of libraries that write private ones.
    """
    temporary = temporary_path(path)
    delete(temporary)
    temporary.mkdir()
    try:
        yield temporary
        apply_umask(temporary)
        if sync:
            for file in [*temporary.rglob("*"), temporary]:
                sync_to_disk(file)
        replace_dir(path, temporary)
        if sync:
            sync_to_disk(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def apply_umask(folder: Path) -> None:
    """Add the permissions of a new file to all files of a folder. safetensors writes mode 0600."""
    sample = folder / ".permissions.tmp"
    sample.touch()
    permissions = sample.stat().st_mode & 0o777
    sample.unlink()
    for file in folder.rglob("*"):
        mode = file.lstat().st_mode
        if stat.S_ISREG(mode) and permissions & ~mode:
            with suppress(PermissionError):  # a disk without permissions
                file.chmod(stat.S_IMODE(mode) | permissions)


def replace_dir(path: Path, new: Path) -> None:
    """Rename `new` to `path`; a folder there is renamed first and then deleted."""
    old = old_path(path)
    if path.exists():
        delete(old)
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def old_path(path: Path) -> Path:
    """The name of a folder while another one replaces it."""
    return path.with_name(f".{path.name}.old.tmp")


def delete(path: Path) -> None:
    """Delete a file or folder if it exists; a folder is renamed first, to disappear at once."""
    if path.is_dir() and not path.is_symlink():
        if not path.name.endswith(".tmp"):
            path = path.rename(path.with_name(f".{path.name}.gone.tmp"))
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Return once the content of a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
