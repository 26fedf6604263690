"""Markdown tables and their cells."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence

Rows = list[list[str]]
"""The header first."""
NUMBER = re.compile(r"(-?\d[\d.,±%/()* -]*|-|)")


def mean(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    return f"{scale * statistics.mean(values):.{digits}f}"


def spread(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    """Mean ± standard deviation over seeds; the mean alone for a single seed."""
    text = mean(values, digits, scale)
    return text + (f" ± {scale * deviation(values):.{digits}f}" if len(values) > 1 else "")


def deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def standard_error(values: Sequence[float]) -> float:
    return deviation(values) / math.sqrt(len(values))


def markdown(rows: Rows) -> str:
    """A pipe table; columns of numbers are right-aligned."""
    head, *others = rows
    numeric = [all(NUMBER.fullmatch(row[i]) for row in others) for i in range(len(head))]
    rules = ["---:" if number else "---" for number in numeric]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rules, *others))
