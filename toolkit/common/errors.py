"""The exception for mistakes of the user."""

from __future__ import annotations


class ToolkitError(ValueError):
    """A mistake that the user can correct; commands print it as one line and exit with code 2."""
