"""Rules that options must keep."""

from __future__ import annotations

from toolkit.common.errors import ToolkitError


def require(holds: bool, message: str) -> None:
    """Raise the message as a user's error unless the rule holds."""
    if not holds:
        raise ToolkitError(message)
