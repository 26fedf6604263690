"""Where a command's figures go: to people as text, to programs as JSON lines, never mixed."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError

STDOUT = "-"
OUTPUT_START = re.compile(rb'\{"event": "\w+"(?!, "update": )')
"""How a file of figures begins. A run's log begins with an update, and cannot be made again."""


class Output:
    """What `--json FILE` asks for; with - the JSON has standard output for itself.

    People then read on standard error. The file is opened at once, so that one that cannot be
    written is told before the work.
    """

    def __init__(self, target: str | None) -> None:
        self.target = target
        self.file: Any = None
        if target == STDOUT:
            self.file = sys.stdout
        elif target is not None:
            self.file = open_json_file(target)

    @property
    def text_stream(self) -> Any:
        """The stream of text that people read."""
        return sys.stderr if self.target == STDOUT else sys.stdout

    @property
    def console(self) -> Console:
        return Console(file=self.text_stream)

    def write(self, event: str, values: Mapping[str, Any]) -> None:
        """One line, an object whose `event` says what it tells of; numbers in full precision."""
        if self.file:
            self.file.write(json_files.dumps({"event": event, **values}) + "\n")
            self.file.flush()

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.file and self.target != STDOUT:
            self.file.close()


def open_json_file(target: str) -> Any:
    """The file, emptied; but never one that is no such file, as a text named by mistake."""
    try:
        if Path(target).is_file() and not is_command_output(Path(target)):
            raise ToolkitError(
                f"--json must be a new file or one of figures, but {target} holds something else, "
                f"which would be lost. Choose another name."
            )
        return Path(target).open("w", encoding="utf-8")
    except OSError as error:
        raise ToolkitError(
            f"--json must be a file that can be written, or -, but {target} is not: "
            f"{error.strerror}. Choose another."
        ) from error


def is_command_output(path: Path) -> bool:
    """Whether there is nothing in it, or lines that an Output wrote."""
    with path.open("rb") as file:
        begin = file.read(100)
    return not begin or OUTPUT_START.match(begin) is not None
