"""Rules that options must keep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from toolkit.common.errors import ToolkitError

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


def require(holds: bool, message: str) -> None:
    """Raise the message as a user's error unless the rule holds."""
    if not holds:
        raise ToolkitError(message)


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise where the value of an option is none of those that there are."""
    require(value in choices, f"{name} must be one of {', '.join(choices)}, but is {value!r}.")


def check_distinct_files(options: Iterable[tuple[str, object]]) -> None:
    """Raise where one file is named by two of the options that say what to write; None names none.

    The later one would take the place of the other.
    """
    found: dict[str, str] = {}
    for option, path in options:
        other = option if path is None else found.setdefault(os.path.realpath(str(path)), option)
        require(
            other == option,
            f"{other} and {option} must name two files, but both write {path}. Choose another name "
            f"for one of them.",
        )
