"""Lists of names and numbers in messages."""

from __future__ import annotations

from collections.abc import Sequence


def join_first(items: Sequence[object], max_items: int = 5, separator: str = ", ") -> str:
    """The first items, and how many more there are: "a, b and 3 more"."""
    rest = len(items) - max_items
    return separator.join(map(str, items[:max_items])) + (f" and {rest} more" if rest > 0 else "")
