"""Markdown tables and their cells."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

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


def error_cell(
    groups: Iterable[Mapping[str, Any]],
    digits: int,
    choose: Callable[[Sequence[float]], float] = max,
) -> str:
    """One of the standard errors of groups of items, in percent; - if they have single items."""
    errors = [it["standard_error"] for it in groups if it["standard_error"] is not None]
    return f"{100 * choose(errors):.{digits}f}" if errors else "-"


def markdown(rows: Rows) -> str:
    """A pipe table; columns of numbers are right-aligned."""
    head, *others = rows
    numeric = [all(NUMBER.fullmatch(row[i]) for row in others) for i in range(len(head))]
    rules = ["---:" if number else "---" for number in numeric]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rules, *others))
