"""The one exception that a user's mistake raises."""

from __future__ import annotations


class ToolkitError(ValueError):
    """Something the user can put right; commands print it as one line and exit with code 2."""
