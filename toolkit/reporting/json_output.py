"""Output of a command: text for users, JSON lines for programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.files import STDOUT, open_output
from toolkit.reporting.console import Console, print_plain

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
        self.to_stdout = target in STDOUT
        self.file: TextIO | None = None
        self._stack = ExitStack()
        if target is not None:
            path = Path(target)
            if not self.to_stdout and path.is_file():
                with path.open("rb") as file:
                    start = file.read(100)
                if start and not OUTPUT_START.match(start):  # a mistyped name costs no corpus
                    raise ToolkitError(
                        f"--json must name a new file or one written by --json, but {target} "
                        f"holds something else. Choose another name."
                    )
            self.file = self._stack.enter_context(open_output("--json", target))

    @property
    def text_stream(self) -> TextStream:
        """The stream for text."""
        return sys.stderr if self.to_stdout else sys.stdout

    @property
    def console(self) -> Console:
        return Console(stderr=self.to_stdout)

    def print_line(self, text: str) -> None:
        print_plain(self.console, text)

    def write(self, event: str, values: Mapping[str, object]) -> None:
        """Write one JSON line with the type of the event; numbers keep full precision."""
        if self.file:
            self.file.write(json_files.dumps({"event": event, **values}) + "\n")
            self.file.flush()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
