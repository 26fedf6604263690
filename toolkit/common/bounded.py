"""Small files that came from elsewhere: read only where they are plain files and small indeed."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError

MOST_BYTES = 16 << 20


def plain(path: Path) -> Path:
    """The path of a plain file; a pipe would never end and a device never be small."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ToolkitError(f"{path} must be a plain file, but is a folder, pipe or device.")
    return path


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Its UTF-8 text. OSError and UnicodeDecodeError are left to the caller, who knows its use."""
    size = plain(path).stat().st_size
    if size > most_bytes:
        raise ToolkitError(
            f"{path} must have at most {most_bytes:,} bytes, but has {size:,}. "
            f"It is damaged or another program's."
        )
    return path.read_bytes().decode()


def read_json(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """The JSON in it; what is not JSON, or nested without end, is a ValueError."""
    try:
        return json.loads(read_text(path, most_bytes))
    except RecursionError:
        raise ValueError("nested too deeply") from None
