"""Consoles of rich that print plain text."""

from __future__ import annotations

from rich import console as rich_console


class Console(rich_console.Console):
    """A console that leaves the error about a closed pipe to its caller, as `print` does."""

    def on_broken_pipe(self) -> None:
        raise


def print_plain(console: Console, text: str, end: str = "\n") -> None:
    """Print text unchanged: no markup, emoji codes, colors or wrapping."""
    console.print(text, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True)
