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
    """Raise if two of the options that name output files name the same one; None names none."""
    found: dict[str, str] = {}
    for option, path in options:
        other = option if path is None else found.setdefault(os.path.realpath(str(path)), option)
        if other != option:
            raise ToolkitError(
                f"{other} and {option} must name different files, but both are {path}."
            )
