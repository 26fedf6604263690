"""Input lines and output files of toolkit-generate and toolkit-predict."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_output
from toolkit.config.commands.generate import GenerationOptions
from toolkit.config.sections import check_distinct_files
from toolkit.data.text_files import open_text
from toolkit.generation.output import (
    R,
    Writer,
    console_writer,
    event_writer,
    file_writer,
    to_json_line,
)
from toolkit.reporting.console import Console
from toolkit.reporting.json_output import Output

STDIN = ("-", "/dev/stdin")


@contextmanager
def open_input(path: str, hint: str) -> Iterator[BinaryIO]:
    """The input as decompressed bytes, so that invalid UTF-8 invalidates only its line.

    `hint` is printed if the input is a terminal.
    """
    if path in STDIN:
        if sys.stdin.isatty():
            print(f"{hint}; end with Ctrl-D.", file=sys.stderr)
        yield sys.stdin.buffer
        return
    with open_text(Path(path), "--input", allow_pipe=True) as lines:
        yield lines


@contextmanager
def open_writers(
    c: GenerationOptions,
    output: Output,
    to_tsv: Callable[[R], str],
    to_console: Callable[[R], list[str]],
    to_text: Callable[[R], str] | None = None,
) -> Iterator[list[Writer[R]]]:
    """Writers to stdout and to the requested files.

    --results-path gets JSON lines, and with `to_text` also a text file of the same name.
    """
    console = Console()
    to_stdout = (
        console_writer(console, to_console)
        if console.is_terminal
        else file_writer(sys.stdout, to_tsv)
    )
    writers: list[Writer[R]] = [event_writer(output)] if c.json else []
    writers += [] if output.to_stdout else [to_stdout]
    if c.results_path is None:
        yield writers
        return
    path = Path(c.results_path)
    if not path.name:
        raise ToolkitError(
            f"--results-path must name a file, such as out.jsonl, but is {c.results_path!r}."
        )
    formats: dict[Path, Callable[[R], str]] = {path: to_json_line}
    if to_text:
        text_path = path.with_suffix(".txt")
        records_path = path.with_suffix(".jsonl") if path == text_path else path
        formats = {records_path: to_json_line, text_path: to_text}
    check_results_path(c.input, *formats, json=c.json)
    with ExitStack() as stack:
        for name, to_line in formats.items():
            file = stack.enter_context(open_output("--results-path", name))
            writers.append(file_writer(file, to_line))
        yield writers


def check_results_path(source: str, *results: Path, json: str | None = None) -> None:
    """Raise if the results would overwrite the input (`source`) or another output."""
    for path in results:
        check_distinct_files({"--json": json, "--results-path": path})
        if source not in STDIN and path.exists() and path.samefile(source):
            raise ToolkitError(
                f"--results-path would overwrite the input {path}. Choose another name."
            )
