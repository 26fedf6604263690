"""Output files of commands: lines as they are ready, or a whole file that appears at once."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from toolkit.common.atomic import atomic_file, temporary_path
from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import open_without_waiting

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = ("-", "/dev/stdout")
"""Names of standard output."""


@contextmanager
def report_write_errors(option: str, path: str | Path) -> Iterator[None]:
    """Turn an error of the file system into one that names the option."""
    try:
        yield
    except OSError as error:
        raise ToolkitError(
            f"Cannot write {option} {path}: {error.strerror or error}. Choose another path."
        ) from error


@contextmanager
def open_output(option: str, path: str | Path) -> Iterator[TextIO]:
    """A text file that takes lines as they are ready.

    Its old content is replaced by the first line, so that it survives a command that fails before.
    Standard output, pipes and devices are written to.
    """
    if str(path) in STDOUT:
        yield sys.stdout
        return
    is_new, file = not os.path.lexists(path), _OutputFile(option, path)
    try:
        with io.TextIOWrapper(
            io.BufferedWriter(file), encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as text:
            yield text
            file.replace_content()
    finally:
        if is_new and not file.is_replaced:
            Path(path).unlink(missing_ok=True)


class _OutputFile(io.FileIO):
    """A file that its first write empties. A named pipe needs a reader: opening never waits."""

    def __init__(self, option: str, path: str | Path) -> None:
        self.option, self.path, self.is_replaced = option, path, False
        with report_write_errors(option, path):
            super().__init__(path, "a", opener=open_without_waiting)

    def write(self, data: ReadableBuffer, /) -> int:
        self.replace_content()
        with report_write_errors(self.option, self.path):
            return super().write(data)

    def replace_content(self) -> None:
        if not self.is_replaced and stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            self.truncate(0)
        self.is_replaced = True


def write_output(option: str, path: str | Path, content: str | bytes) -> None:
    """Write or replace a file in one step.

    Standard output, pipes, devices and files in read-only folders are written to.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    if _is_replaceable(path):
        with report_write_errors(option, path), atomic_file(_resolve(path)) as temporary:
            temporary.write_bytes(data)
        return
    with open_output(option, path) as file:
        file.flush()
        file.buffer.write(data)


def check_output(option: str, path: str | Path, *, allow_folder: bool = False) -> None:
    """Raise if `write_output` would fail, or writing a file in the folder, before the work."""
    is_folder = os.path.isdir(path)
    with report_write_errors(option, path):
        if not str(path):
            raise FileNotFoundError(errno.ENOENT, "it is empty")
        if is_folder and not allow_folder:
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if is_folder or _is_replaceable(path):
            temporary = temporary_path(_resolve(path) / "file" if is_folder else _resolve(path))
            temporary.touch()
            temporary.unlink()
        elif os.path.isfile(path):
            open(path, "ab").close()


def _resolve(path: str | Path) -> Path:
    """The target of a link, which stays when its target is replaced; not links that form a loop."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _is_replaceable(path: str | Path) -> bool:
    """Whether it is a name for a new file, or a file that a new one in its folder can replace."""
    if str(path) in STDOUT or not os.path.exists(path):
        return str(path) not in STDOUT
    return os.path.isfile(path) and os.access(_resolve(path).parent, os.W_OK)
