"""Rules that options must keep."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.common.errors import ToolkitError

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")


def require(holds: bool, message: str) -> None:
    """Raise the message as a user's error unless the rule holds."""
    if not holds:
        raise ToolkitError(message)


def one_of(name: str, value: str, known: Sequence[str]) -> None:
    """Raise where the value of an option is none of those that there are."""
    require(value in known, f"{name} must be one of {', '.join(known)}, but is {value!r}.")
