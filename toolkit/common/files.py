"""Input files, and output that appears complete or not at all.

Only regular files are opened, and pipes where a command allows them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

from toolkit.common.errors import ToolkitError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
"""Type of a file -> its name in messages."""


def open_regular(path: Path, max_bytes: int | None = None, *, allow_pipe: bool = False) -> BinaryIO:
    """Open a regular file, or with `allow_pipe` a pipe, of at most `max_bytes` (None: any size).

    Raises a ToolkitError for other kinds and larger files; OSError is left to the caller.
    """
    status = path.stat()
    kind = stat.S_IFMT(status.st_mode)
    if kind in KINDS and not (allow_pipe and kind == stat.S_IFIFO):
        raise ToolkitError(
            f"{path} must be a regular file, but is {KINDS[kind]}. Correct the path."
        )
    if max_bytes is not None and status.st_size > max_bytes:
        raise ToolkitError(
            f"{path} must have at most {max_bytes:,} bytes, but has {status.st_size:,}. "
            f"It is damaged or belongs to another program."
        )
    return path.open("rb")


def open_unlinked(path: Path, mode: str, buffering: int = -1) -> IO[Any]:
    """Open a file of a run's folder to write. A link, which may lead out of it, is an error."""

    def open_file(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, mode, buffering, opener=open_file)


def read_bytes(path: Path, max_bytes: int | None = None) -> bytes:
    """Content of a regular file; raises like `open_regular`."""
    with open_regular(path, max_bytes) as file:
        return file.read()


def temporary_path(path: Path) -> Path:
    """Hidden sibling of `path` for this process to write to before it is renamed."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def new_temporary_path(path: Path) -> Path:
    """The path of `temporary_path`, once what killed processes wrote for `path` is deleted.

    A file with the id of this process is one of them, since in containers ids repeat.
    """
    temporary = temporary_path(path)
    for left in path.parent.glob(f".{escape(path.name)}.*.tmp"):
        owner = left.name.split(".")[-2]
        if left == temporary or (owner.isdigit() and not is_running(int(owner))):
            delete(left)
    return temporary


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path leads into a folder once links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL in the name
        return False


def check_distinct_files(files: Mapping[str, object]) -> None:
    """Raise if two options name the same file; None, - and an empty name are none."""
    options_by_file: dict[str, str] = {}
    for option, path in files.items():
        if path in (None, "", "-"):
            continue
        other = options_by_file.setdefault(os.path.realpath(str(path)), option)
        if other != option:
            raise ToolkitError(
                f"{other} and {option} must name different files, but both are {path}."
            )


def is_running(process: int) -> bool:
    """Whether a process of this host exists, of any user, and is not a zombie."""
    try:
        if Path("/proc/self/stat").exists():
            text = Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace")
            return text.rpartition(")")[2].split()[0] not in ("Z", "X")
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


@contextmanager
def atomic_file(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """A path to write to, which replaces `path` (after `sync`) if the block ends without error."""
    temporary = new_temporary_path(path)
    try:
        with name_errors(path):
            yield temporary
        if sync:
            sync_to_disk(temporary)
        temporary.replace(path)
        if sync:
            sync_to_disk(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: Path, *, sync: bool = False, replace: bool = True) -> Iterator[Path]:
    """A new folder to fill, which becomes `path` if the block ends without an error.

    With `replace` it replaces another folder, where Linux can exchange them without a moment in
    which none lies there; else it is an error if one lies there by then. Its files have the
    permissions of new files, also those of libraries that write private ones.
    """
    temporary = new_temporary_path(path)
    temporary.mkdir()
    try:
        with name_errors(path):
            yield temporary
        apply_umask(temporary)
        if sync:
            for file in [*temporary.rglob("*"), temporary]:
                sync_to_disk(file)
        old = path.with_name(f".{path.name}.old.tmp")
        if not (replace and path.exists() and exchange(temporary, path)):
            if replace and path.exists():  # a folder is renamed first and then deleted
                delete(old)
                path.rename(old)
            try:
                temporary.rename(path)
            except OSError as error:
                if replace:
                    raise
                raise ToolkitError(
                    f"{path} must be new, but cannot be made: {error.strerror}. If another process "
                    f"has written it in the meantime, choose another name."
                ) from error
        shutil.rmtree(old, ignore_errors=True)
        if sync:
            sync_to_disk(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


AT_FDCWD, RENAME_EXCHANGE = -100, 2  # fcntl.h, linux/fs.h


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step. False, and no effect, where the system cannot."""
    linux = sys.platform.startswith("linux")
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if linux else None  # glibc, musl 1.2.6
    paths = (AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other))
    return rename is not None and rename(*paths, RENAME_EXCHANGE) == 0


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


STDOUT = ("-", "/dev/stdout")
"""Names of standard output."""


@contextmanager
def name_errors(path: str | Path) -> Iterator[None]:
    """Errors of writing inside, as of a full disk, name this path if they name none."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def open_output(path: str | Path, *, append: bool = False) -> Iterator[TextIO]:
    """A text file that takes lines as they are ready.

    It replaces what was there at the end: a command that is killed leaves the old content. After a
    mistake of the user, such as in the input, the lines before it are kept; so they are after an
    error of another file, if nothing was there. Standard output, pipes and devices are written to,
    and files with `append`.
    """
    if str(path) in STDOUT:
        yield sys.stdout
        return
    style: Any = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    if append or (os.path.exists(path) and not os.path.isfile(path)):
        with name_errors(path), open(path, "a", **style) as text:
            yield text
        return
    target, keep = Path(os.path.realpath(path)), False  # a link stays when its target is replaced
    temporary = new_temporary_path(target)
    try:
        with name_errors(target), open(temporary, "w", **style) as text:
            try:
                yield text
                keep = True
            except (OSError, ToolkitError) as error:
                text.flush()
                replaces = isinstance(error, ToolkitError) or not target.exists()
                keep = replaces and temporary.stat().st_size > 0
                raise
    finally:
        if keep:
            temporary.replace(target)
        else:
            temporary.unlink(missing_ok=True)


def write_output(path: str | Path, content: str | bytes) -> None:
    """Write or replace a file in one step. Standard output, pipes and devices are written to."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    if str(path) in STDOUT or (os.path.exists(path) and not os.path.isfile(path)):
        with open_output(path) as file:
            file.flush()
            file.buffer.write(data)
        return
    target = Path(os.path.realpath(path))  # a link stays when its target is replaced
    with atomic_file(target) as temporary:
        temporary.write_bytes(data)


def check_output(path: str | Path, *, allow_folder: bool = False) -> None:
    """Raise if `write_output` would fail, or writing a file in the folder, before the work."""
    is_folder = os.path.isdir(path)
    if not str(path) or (is_folder and not allow_folder):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path) or ".")
    if is_folder or os.path.isfile(path) or not os.path.exists(path):
        target = Path(os.path.realpath(path))
        temporary = new_temporary_path(target / "file" if is_folder else target)
        temporary.touch()
        temporary.unlink()
