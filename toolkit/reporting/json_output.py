"""Output of a command: text for users, JSON lines for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

from rich.console import Console

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.reporting.plain_text import print_plain

STDOUT = "-"
OUTPUT_START = re.compile(rb'\{"event": "\w+"(?!, "update": )')
"""Start of a file that may be overwritten. A run's log, which starts with an update, may not."""


@runtime_checkable
class TextStream(Protocol):
    """A stream that `print` can write to."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class Output:
    """Text and JSON lines (`--json FILE`); with `-`, JSON goes to stdout and text to stderr.

    The file is opened at once, so that an unwritable path fails before the work.
    """

    def __init__(self, target: str | None) -> None:
        self.target = target
        self.file: TextIO | None = None
        if target == STDOUT:
            self.file = sys.stdout
        elif target is not None:
            self.file = open_json_file(target)

    @property
    def text_stream(self) -> TextStream:
        """The stream for text."""
        return sys.stderr if self.target == STDOUT else sys.stdout

    @property
    def console(self) -> Console:
        return Console(stderr=self.target == STDOUT)

    def print_line(self, text: str) -> None:
        print_plain(self.console, text)

    def write(self, event: str, values: Mapping[str, object]) -> None:
        """Write one JSON line with the type of the event; numbers keep full precision."""
        if self.file:
            self.file.write(json_files.dumps({"event": event, **values}) + "\n")
            self.file.flush()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *error: object) -> None:
        if self.file and self.target != STDOUT:
            self.file.close()


def open_json_file(target: str) -> TextIOWrapper:
    """The file, emptied. Files that no command wrote with --json are never overwritten."""
    try:
        if Path(target).is_file() and not is_command_output(Path(target)):
            raise ToolkitError(
                f"--json must name a new file or one written by --json, but {target} holds "
                f"something else. Choose another name."
            )
        return Path(target).open("w", encoding="utf-8")
    except OSError as error:
        raise ToolkitError(
            f"--json must be a writable file or -, but {target} is not: "
            f"{error.strerror}. Choose another."
        ) from error


def is_command_output(path: Path) -> bool:
    """Whether the file is empty or was written by `Output`."""
    with path.open("rb") as file:
        start = file.read(100)
    return not start or OUTPUT_START.match(start) is not None
