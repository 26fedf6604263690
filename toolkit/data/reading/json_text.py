"""JSON as users have it: packed or not, with or without a byte order mark, sometimes cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.data.reading.passages import Problem
from toolkit.data.tagged.source_text import BOM, decoded, unpacked


class NotJson(ToolkitError):
    """Raised for a file that is none; knows what is wrong where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem} Copy it again.")
        self.problem = problem


def read_json(path: Path) -> Any:
    """What a file holds; where it is no JSON, an error that names line and column."""
    text = decoded(path, unpacked(path).removeprefix(BOM))
    if not text.strip():
        raise NotJson(Problem(path, "1", "the file must hold JSON, but is empty."))
    try:
        return json.loads(text)
    except RecursionError as error:
        what = "the file must hold questions, but nests things without end."
        raise NotJson(Problem(path, "1", what)) from error
    except json.JSONDecodeError as error:
        raise NotJson(fault_of(path, text, error)) from error


def fault_of(path: Path, text: str, error: json.JSONDecodeError) -> Problem:
    """With the line, and the column unless it is the end."""
    ends = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
    line = text.count("\n") + 1 if ends else error.lineno
    fault = "ends too early: it was cut off" if ends else f"is none ({error.msg})"
    size = f", which has {len(text):,} characters"
    at = f"at column {error.colno}" if not ends else f"behind {text[-20:]!r}{size}"
    return Problem(path, str(line), f"the file must be JSON to its end, but {fault} {at}.")
