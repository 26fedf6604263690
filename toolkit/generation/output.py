"""Answers for people (a table), for pipes (tab-separated) and for programs (JSON lines)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from rich.console import Console as Terminal

from toolkit.common import strict_json
from toolkit.generation.fill_mask import Answer
from toolkit.metrics.tables import Cell, Table

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # how SentencePiece spells the space before a word
CONTROLS = {"\t": "\\t", "\r": "\\r", "\\": "\\\\"}
SHOWN_CHARACTERS = 60


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
            masks = [[{"token": t, "probability": p} for t, p in gap] for gap in answer.gaps]
            record = {"line": answer.line, "text": answer.text, "masks": masks}
            self.file.write(strict_json.dumps({**record, "note": answer.note or None}) + "\n")
        self.file.flush()


class TabSeparated:
    """A line for a line: its text, then `token probability token probability ...` for each gap.

    In place of the gaps a note begins with #. Tabs of the text are written as a backslash and t.
    """

    def __init__(self, file: TextFile) -> None:
        self.file = file

    def write(self, answers: list[Answer]) -> None:
        for answer in answers:
            gaps = [" ".join(f"{token} {p:.4f}" for token, p in gap) for gap in answer.gaps]
            text = re.sub(r"[\t\r\\]", lambda found: CONTROLS[found.group()], answer.text)
            self.file.write("\t".join([text, *(gaps or [f"# {answer.note}"])]) + "\n")
        self.file.flush()


class People:
    """A table whose rows are gaps."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def write(self, answers: list[Answer]) -> None:
        most = max([len(gap) for answer in answers for gap in answer.gaps], default=1)
        columns = ["line", "text", *(str(n + 1) for n in range(most))]
        rows = [row for answer in answers for row in table_rows(answer, most)]
        Table(columns=columns, rows=rows).print(self.terminal)


def table_rows(answer: Answer, columns: int) -> Iterator[list[Cell]]:
    """One row a gap, the text only in the first; or one row with the note."""
    text, cut = answer.text[:SHOWN_CHARACTERS], len(answer.text) > SHOWN_CHARACTERS
    texts = [answer.line, text + "..." * cut], ["", ""]
    filled = [[f"{readable(token)} {p:.1%}" for token, p in gap] for gap in answer.gaps]
    for index, cells in enumerate(filled or [[f"({answer.note})"]]):
        yield [*texts[min(index, 1)], *cells, *[""] * (columns - len(cells))]


def readable(token: str) -> str:
    """A piece that begins a word without its mark, one that continues a word with a dash."""
    if token.startswith(WORD_START):
        return token[1:] or "(space)"
    return f"-{token}" if token[:1].isalnum() else token
