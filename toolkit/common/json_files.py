"""JSON reading and writing: declared contents, non-finite numbers, and untrusted files."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from toolkit.common.errors import ToolkitError
from toolkit.common.files import atomic_file, open_regular, read_bytes

MAX_BYTES = 16 << 20
MAX_DEPTH = 100
"""Maximum nesting of a file's values."""
JsonObject = dict[str, Any]
"""A JSON object, or one to write."""
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number from 0 on that fits 64 bits."""
PositiveCount = Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
Number = float | int
FilePath = Annotated[str, msgspec.Meta(pattern=r"^[^\0]+$")]
_SEPARATORS = "/" if os.sep == "/" else r"/\\:"
FileName = Annotated[str, msgspec.Meta(pattern=rf"^(?!\.\.?$)[^{_SEPARATORS}\0]+$")]
"""The name of a file in the same folder, on this system."""
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
T = TypeVar("T")


class JsonError(ValueError):
    """Raised for text that is not JSON, and for values of other types than declared."""


def dumps(
    value: object, *, indent: int | None = None, default: Callable[[Any], str] | None = None
) -> str:
    """JSON by RFC 8259, which has no NaN: such numbers become "NaN", "Infinity", "-Infinity".

    `default` turns values of other types than those of JSON into text.
    """
    style: dict[str, Any] = {"indent": indent, "allow_nan": False, "ensure_ascii": False}
    return json.dumps(encode_non_finite(value), default=default, **style)


def loads(text: str) -> Any:
    """The value that `dumps` wrote; the three strings become non-finite numbers again."""
    return decode_non_finite(parse_strictly(text))


def parse(text: str | bytes) -> Any:
    """The value of a JSON text; raises JsonError with the position for another text."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode())
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if error.lineno > 1 else ""
        place = f"{line}column {error.colno}"
        raise JsonError(f"{error.msg.removesuffix(' at')} at {place}") from error
    except RecursionError:
        raise JsonError("nested too deeply") from None
    except UnicodeDecodeError:
        raise JsonError("found text that is not UTF-8") from None
    except ValueError:
        raise JsonError("found an integer of thousands of digits") from None


def parse_strictly(text: str | bytes) -> Any:
    """The value of the text of a JSON file, which is not nested too deeply."""
    value = parse(text)
    check_depth(value)
    return value


def check_depth(value: object, left: int = MAX_DEPTH) -> None:
    """Raise JsonError if lists and objects are nested more than `left` times."""
    if not left:
        raise JsonError("nested too deeply")
    items = value if isinstance(value, list) else []
    for item in value.values() if isinstance(value, dict) else items:
        if isinstance(item, dict | list):
            check_depth(item, left - 1)


def decode(text: str | bytes, kind: Callable[..., T], *, non_finite: bool = False) -> T:
    """The value of a JSON text as `kind`: a dataclass, named tuple, container or scalar type.

    Objects may have more fields than declared. `non_finite` is for texts that `dumps` wrote.
    Raises JsonError that names the field and what is wrong with it.
    """
    value = parse_strictly(text)
    return convert(decode_non_finite(value) if non_finite else value, kind)


def convert(value: object, kind: Callable[..., T]) -> T:
    """A JSON value as `kind`; see `decode`."""
    try:
        converted: T = msgspec.convert(value, type=kind)
        return converted
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half of a surrogate pair
        problem, _, place = str(error).replace("`", "").partition(" - at $")
        problem = problem[:1].lower() + problem[1:].replace(", got ", ", found ")
        problem = re.sub("str matching regex .*", "the name of a file", problem)
        raise JsonError(f"{place.lstrip('.')}: {problem}" if place else problem) from None


def convert_fields(value: object, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Some fields of a JSON object, each as its kind."""
    fields = msgspec.defstruct("Fields", list(kinds.items()))
    return msgspec.structs.asdict(convert(value, fields))


def is_json_object(text: str) -> bool:
    """Whether a line of text is a JSON object."""
    try:
        return text.lstrip().startswith("{") and isinstance(parse(text), dict)
    except JsonError:
        return False


def digest_json(value: object) -> str:
    """SHA-256 of a JSON value, independent of the order of its fields."""
    return sha256(json.dumps(value, sort_keys=True))


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


def read_json(
    path: Path,
    kind: Callable[..., T],
    remedy: str,
    *,
    max_bytes: int = MAX_BYTES,
    non_finite: bool = False,
) -> T:
    """The contents of an untrusted JSON file as `kind`; see `decode`."""
    with name_file(path, remedy):
        return decode(read_bytes(path, max_bytes).decode(), kind, non_finite=non_finite)


def check_digest(path: Path, content: JsonObject, kind: Callable[..., T], remedy: str) -> T:
    """The content of a file that `write_signed_json` wrote as `kind`, if its digest matches."""
    unsigned = {name: value for name, value in content.items() if name != "digest"}
    if content.get("digest") != digest_json(unsigned):
        raise ToolkitError(f"{path} must match its own digest, but was damaged or edited. {remedy}")
    with name_file(path, remedy):
        return convert(unsigned, kind)


@contextmanager
def name_file(path: Path, remedy: str) -> Iterator[None]:
    """Raise ToolkitError with the file and the remedy if it is unreadable or malformed."""
    try:
        yield
    except OSError as error:
        raise ToolkitError(
            f"{path} must be readable, but is not: {error.strerror}. {remedy}"
        ) from None
    except UnicodeDecodeError:
        raise ToolkitError(f"{path} must be UTF-8 text, but is not. {remedy}") from None
    except JsonError as error:
        raise ToolkitError(f"{path}: {error}. {remedy}") from None


def write_json(
    path: Path, value: object, *, sync: bool = False, end: str = "\n", **style: Any
) -> None:
    """Write a JSON file in one step, non-finite numbers as `dumps` does.

    `style` are options of json.dumps. With `sync`, the content is on disk before the file appears.
    """
    text = json.dumps(encode_non_finite(value), allow_nan=False, **style) + end
    with atomic_file(path, sync=sync) as temporary:
        temporary.write_text(text, "utf-8", newline="\n")


def write_signed_json(path: Path, content: JsonObject) -> None:
    """Write a file with the digest of its content, for `check_digest`."""
    write_json(path, {**content, "digest": digest_json(content)}, sync=True, indent=1)


BLOCK_BYTES = 1 << 20
SAMPLES, SAMPLE_BYTES = 64, 4096


def sha256(data: str | bytes) -> str:
    """Hexadecimal SHA-256 of bytes, or of a text in UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content, read in blocks."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def sample_digest(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's size and of 64 evenly spread chunks of 4 KiB."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    last = max(0, size - SAMPLE_BYTES)
    step = last / (SAMPLES - 1)
    with open_regular(path) as file:
        for offset in (*(int(sample * step) for sample in range(SAMPLES - 1)), last):
            file.seek(offset)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
