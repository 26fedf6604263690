"""Two readable columns: a term, and the text that explains it, wrapped."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

LEFT = 34


def columns(rows: Iterable[tuple[str, str]], *, indent: int = 2) -> str:
    """Terms that are too long for their column stand on a line of their own."""
    rows = list(rows)
    left = min(LEFT, indent + 2 + max((len(term) for term, _ in rows), default=0))
    return "\n".join(row(term, text, left, indent) for term, text in rows)


def row(term: str, text: str, left: int, indent: int) -> str:
    start = " " * indent + term
    lines = textwrap.wrap(text, max(30, width() - left), break_on_hyphens=False) or [""]
    if len(start) + 2 > left:
        lines = [start, *(" " * left + line for line in lines)]
    else:
        lines = [start.ljust(left) + lines[0], *(" " * left + line for line in lines[1:])]
    return "\n".join(line.rstrip() for line in lines)


def paragraph(text: str) -> str:
    return textwrap.fill(text, width(), break_on_hyphens=False)


def width() -> int:
    return min(100, shutil.get_terminal_size((100, 24)).columns)
