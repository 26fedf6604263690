"""Output folder of toolkit-preprocess, which appears complete or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.files import sync_to_disk
from toolkit.common.system import is_running
from toolkit.data.storage.meta import META_FILE, read_meta


@contextmanager
def create_output_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A temporary folder next to `path` that takes its name when the block ends without error."""
    path = check_destdir(path, overwrite=overwrite)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
        partial.mkdir()
    except OSError as error:
        raise ToolkitError(
            f"destdir must be a folder that can be made, but {path} is not: {error.strerror}. "
            f"Choose another --destdir."
        ) from error
    try:
        yield partial
        for file in [*partial.rglob("*"), partial]:
            sync_to_disk(file)
        replace_folder(path, partial)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_destdir(path: Path, *, overwrite: bool) -> Path:
    """The folder that a data folder can be renamed to: `path`, or the target of a link."""
    path = _resolve_link(path)
    _check_movable(path)
    _check_vacant(path, overwrite)
    return path


def replace_folder(path: Path, new: Path) -> None:
    """Rename a complete data folder to `path`; the old one is deleted after that."""
    old = path.with_name(f"{path.name}.old-{os.getpid()}")
    if path.exists():
        path.rename(old)
    new.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _resolve_link(path: Path) -> Path:
    """The target of a symbolic link, which may not exist; the link itself stays."""
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError):  # links that form a cycle
        return path


def _check_movable(path: Path) -> None:
    """Raise before the work if no folder could be renamed to this path."""
    if path.name in ("", "..") or path.is_symlink() or os.path.ismount(path):
        raise ToolkitError(
            f"destdir must be a folder that can be renamed, but {path} cannot. Name one in it, as "
            f"{path / 'data'}."
        )


def _check_vacant(path: Path, overwrite: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / META_FILE).is_file():
        raise ToolkitError(
            f"destdir must be new or empty, but {path} holds something else than a data folder. "
            f"Choose another --destdir."
        )
    if not overwrite:
        raise ToolkitError(
            f"destdir must be new or empty, but {path} holds a data folder already. Choose "
            f"another --destdir, or replace it with --overwrite."
        )
    if foreign := _find_foreign_file(path):
        raise ToolkitError(
            f"destdir must hold a data folder alone to be replaced, but {path} also holds "
            f"{foreign}. Choose another --destdir, or move it away."
        )


def _find_foreign_file(folder: Path) -> str | None:
    """The first entry of a data folder that toolkit-preprocess did not write."""
    try:
        meta = read_meta(folder)
    except ToolkitError as error:  # whose advice, to preprocess again, would lead back here
        raise ToolkitError(
            f"destdir must hold a data folder alone to be replaced, but the content of {folder} is "
            f"unknown: its {META_FILE} is damaged, or of another program or version. Choose "
            f"another --destdir, or move it away."
        ) from error
    written = {META_FILE, *meta.files}
    columns = tuple(f"{split}.{c}" for split, it in meta.splits.items() for c in it["columns"])
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_column = name.startswith(columns) and path.suffix == ".npy"
        is_folder = path.is_dir() and any(file.startswith(f"{name}/") for file in written)
        if not (name in written or is_column or is_folder):
            return name
    return None


def _remove_abandoned(path: Path) -> None:
    """Remove temporary folders of interrupted runs, unless the run is still alive.

    A folder with the id of this process is abandoned: in containers ids repeat.
    """
    for left in path.parent.glob(f"{escape(path.name)}.partial-*"):
        owner = left.name.rpartition("-")[2]
        if owner.isdigit() and (int(owner) == os.getpid() or not is_running(int(owner))):
            shutil.rmtree(left, ignore_errors=True)
