"""Plain text on a rich console."""

from __future__ import annotations

from rich.console import Console


def print_plain(console: Console, text: str, end: str = "\n") -> None:
    """Print text unchanged: no markup, emoji codes, colors or wrapping."""
    console.print(text, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True)
