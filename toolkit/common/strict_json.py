"""JSON that every reader accepts: numbers that are not finite are spelled as strings."""

from __future__ import annotations

import json
import math
from typing import Any

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
