"""Two columns for terminals: a term, and a wrapped text that explains it."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

TERM_WIDTH = 34


def format_columns(rows: Iterable[tuple[str, str]], *, indent: int = 2) -> str:
    """The rows as text; a term that is too long for its column gets a separate line."""
    rows = list(rows)
    left = min(TERM_WIDTH, indent + 2 + max((len(term) for term, _ in rows), default=0))
    return "\n".join(format_row(term, text, left, indent) for term, text in rows)


def format_row(term: str, text: str, left: int, indent: int) -> str:
    """One row: the term, then the text wrapped from column `left` on."""
    start = " " * indent + term
    lines = textwrap.wrap(text, max(30, terminal_width() - left), break_on_hyphens=False) or [""]
    if len(start) + 2 > left:
        lines = [start, *(" " * left + line for line in lines)]
    else:
        lines = [start.ljust(left) + lines[0], *(" " * left + line for line in lines[1:])]
    return "\n".join(line.rstrip() for line in lines)


def wrap_paragraph(text: str) -> str:
    """The text wrapped to the width of the terminal."""
    return textwrap.fill(text, terminal_width(), break_on_hyphens=False)


def terminal_width() -> int:
    """Width of the terminal in columns, at most 100."""
    return min(100, shutil.get_terminal_size((100, 24)).columns)
