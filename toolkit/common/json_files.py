"""Small files that came from elsewhere: read only where they are plain files and small indeed."""

from __future__ import annotations

import json
import math
import stat
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError

MAX_BYTES = 16 << 20


def check_regular_file(path: Path) -> Path:
    """The path of a plain file; a pipe would never end and a device never be small."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ToolkitError(f"{path} must be a plain file, but is a folder, pipe or device.")
    return path


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Its UTF-8 text. OSError and UnicodeDecodeError are left to the caller, who knows its use."""
    size = check_regular_file(path).stat().st_size
    if size > max_bytes:
        raise ToolkitError(
            f"{path} must have at most {max_bytes:,} bytes, but has {size:,}. "
            f"It is damaged or another program's."
        )
    return path.read_bytes().decode()


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """The JSON in it; what is not JSON, or nested without end, is a ValueError."""
    try:
        return json.loads(read_text(path, max_bytes))
    except RecursionError:
        raise ValueError("nested too deeply") from None


NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: Any, *, indent: int | None = None) -> str:
    """JSON by RFC 8259, which knows no NaN: those numbers become "NaN", "Infinity", "-Infinity"."""
    return json.dumps(encode_non_finite(value), indent=indent, allow_nan=False, ensure_ascii=False)


def loads(text: str) -> Any:
    """What dumps wrote; a string that is one of the three spellings is read as the number."""
    return decode_non_finite(json.loads(text))


def encode_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: encode_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_non_finite(item) for item in value]
    return value


def decode_non_finite(value: Any) -> Any:
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: decode_non_finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode_non_finite(item) for item in value]
    return value
