"""Malformed rows and questions: errors, or lines of the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from toolkit.common.errors import ToolkitError

MAX_LISTED = 5
"""Problems of one kind that are printed for each split; the JSON records list all."""
MAX_QUOTED = 40
"""Characters of an invalid value that an error quotes."""


def raise_malformed(problems: Sequence[object], *, skippable: bool) -> NoReturn:
    """Report the first problem of a file and the number of problems."""
    count = f" The file has {len(problems):,} such problems." if len(problems) > 1 else ""
    advice = "Correct it, or give --on-malformed skip." if skippable else "Correct it."
    raise ToolkitError(f"{problems[0]}{count} {advice}")


def list_first(split: str, handled: str, problems: Sequence[object]) -> Iterator[str]:
    """The first problems as lines, and the number of the others."""
    lines = list(dict.fromkeys(map(str, problems)))
    yield from (f"{handled} {line}" for line in lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        yield f"and {len(lines) - MAX_LISTED:,} more of {split} {handled.rstrip(':')}"
