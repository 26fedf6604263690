"""Small files that came from elsewhere: read only where they are plain files and small indeed."""

from __future__ import annotations

import json
import math
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


NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: Any, *, indent: int | None = None) -> str:
    """JSON by RFC 8259, which knows no NaN: those numbers become "NaN", "Infinity", "-Infinity"."""
    return json.dumps(spelled(value), indent=indent, allow_nan=False, ensure_ascii=False)


def loads(text: str) -> Any:
    """What dumps wrote; a string that is one of the three spellings is read as the number."""
    return restored(json.loads(text))


def spelled(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(item) for item in value]
    return value


def restored(value: Any) -> Any:
    if isinstance(value, str):
        return NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return value
