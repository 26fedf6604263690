"""JSON reading and writing: non-finite numbers, and files that may be damaged or hostile."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, BinaryIO

from toolkit.common.input_files import open_regular

MAX_BYTES = 16 << 20
JsonObject = dict[str, Any]
"""A JSON object, or one to write."""
JSON_TYPES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}
"""Python type -> the value's type in JSON."""
NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: object, *, indent: int | None = None) -> str:
    """JSON by RFC 8259, which has no NaN: such numbers become "NaN", "Infinity", "-Infinity"."""
    return json.dumps(encode_non_finite(value), indent=indent, allow_nan=False, ensure_ascii=False)


def loads(text: str) -> Any:
    """The value that `dumps` wrote; the three strings become non-finite numbers again."""
    return decode_non_finite(json.loads(text))


def describe_syntax_error(error: ValueError | RecursionError) -> str:
    """What json.loads of a line reports, without the number of the line in its text."""
    if not isinstance(error, json.JSONDecodeError):  # a huge number, or too many brackets
        return str(error)
    return f"{error.msg.removesuffix(' at')} at column {error.colno}"


def is_json_object(text: str) -> bool:
    """Whether a line of text is a JSON object."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def encode_non_finite(value: object) -> object:
    """A value with NaN and infinity as text, which JSON can express."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: encode_non_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_non_finite(item) for item in value]
    return value


def decode_non_finite(value: object) -> object:
    """A value with the texts of NaN and infinity as numbers again."""
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: decode_non_finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode_non_finite(item) for item in value]
    return value


def open_untrusted(path: Path, max_bytes: int | None = MAX_BYTES) -> BinaryIO:
    """Open a file that may come from anyone: a regular file of at most `max_bytes` (None: any)."""
    return open_regular(path, max_bytes)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """UTF-8 text of an untrusted file; OSError and UnicodeDecodeError are left to the caller."""
    with open_untrusted(path, max_bytes) as file:
        return file.read().decode()


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """Content of an untrusted JSON file; a ValueError if it is not JSON or nested too deeply."""
    try:
        return json.loads(read_text(path, max_bytes))
    except RecursionError:
        raise ValueError("nested too deeply") from None
