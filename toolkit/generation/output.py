"""Answers for people (aligned), for pipes (tab-separated) and for programs (JSON lines)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from rich.console import Console as Terminal

from toolkit.common import strict_json
from toolkit.generation.fill_mask import Answer
from toolkit.metrics.output import Output

CONTROLS = {"\t": "\\t", "\r": "\\r", "\\": "\\\\"}


@runtime_checkable
class TextFile(Protocol):
    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...


@runtime_checkable
class Writer(Protocol):
    def write(self, answers: list[Answer]) -> None: ...


class JsonLines:
    """{"line": 1, "text": ..., "masks": [[{"token": ..., "probability": ...}]], "note": ...}"""

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, answers: list[Answer]) -> None:
        for answer in answers:
            self.file.write(strict_json.dumps(record(answer)) + "\n")
        self.file.flush()


def record(answer: Answer) -> dict[str, Any]:
    """As JSON."""
    masks = [[{"token": t, "probability": p} for t, p in gap] for gap in answer.gaps]
    found = {"line": answer.line, "text": answer.text, "masks": masks, "note": answer.note or None}
    return {**found, "sentence": answer.sentence} if answer.sentence else found


class Events:
    """The same among the figures of a command: {"event": "answer", "line": 1, ...}."""

    def __init__(self, output: Output) -> None:
        self.output = output

    def write(self, answers: list[Answer]) -> None:
        for answer in answers:
            self.output.write("answer", record(answer))


class TabSeparated:
    """A line for a line: its text, then `token probability token probability ...` for each gap.

    In place of the gaps a note begins with #. Tabs of the text are written as a backslash and t.
    """

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, answers: list[Answer]) -> None:
        for answer in answers:
            gaps = [answer.sentence] if answer.sentence else []
            gaps += [" ".join(f"{token} {p:.4f}" for token, p in gap) for gap in answer.gaps]
            text = re.sub(r"[\t\r\\]", lambda found: CONTROLS[found.group()], answer.text)
            self.file.write("\t".join([text, *(gaps or [f"# {answer.note}"])]) + "\n")
        self.file.flush()


class People:
    """Each line's text, and below it for each of its gaps the candidates in columns."""

    def __init__(self, terminal: Terminal, readable: Callable[[str], str]) -> None:
        self.terminal, self.readable = terminal, readable

    def write(self, answers: list[Answer]) -> None:
        indent = len(str(answers[-1].line)) if answers else 0
        for answer in answers:
            lines = [f"{answer.line:>{indent}}  {answer.text}"]
            lines += [f"{'':{indent}}  {answer.sentence}"] if answer.sentence else []
            lines += [f"{'':{indent}}  {row}" for row in candidates(answer, self.readable)]
            self.terminal.print(
                "\n".join(lines), markup=False, highlight=False, emoji=False, soft_wrap=True
            )


def candidates(answer: Answer, readable: Callable[[str], str]) -> list[str]:
    """One row a gap, aligned; or the note."""
    cells = [[f"{readable(token)} {p:.1%}" for token, p in gap] for gap in answer.gaps]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return rows or [f"({answer.note})"]
