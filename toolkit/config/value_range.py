"""Ranges of values to draw from: `1e-5..1e-3`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.common.errors import ToolkitError

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")
WHOLE = re.compile(r"\d+")


@dataclass(frozen=True)
class ValueRange:
    """Positive numbers from low to high, both included."""

    low: float
    high: float
    whole: bool
    """Whether only whole numbers are drawn, as from 100..1000."""


def parse_range(option: str, values: Sequence[str]) -> ValueRange | None:
    """The range that the values of an option are; None if they are a list."""
    found = [match for value in values if (match := RANGE.fullmatch(value.strip()))]
    if not found:
        return None
    text, (first, last) = f"sweep.grid {option}={found[0][0]}", found[0].groups()
    if len(values) > 1:
        raise ToolkitError(f"{text} cannot be combined with other values of {option}.")
    low, high = float(first), float(last)
    if low > high:
        raise ToolkitError(
            f"{text} must begin with the lower number. Write {option}={last}..{first}."
        )
    if not 0 < low < high < math.inf:
        raise ToolkitError(
            f"{text} must be a range of positive numbers from a smaller to a larger one: it is "
            f"searched on a logarithmic scale. List the values instead, as in {option}=0,0.1."
        )
    return ValueRange(low, high, whole=all(map(WHOLE.fullmatch, found[0].groups())))
