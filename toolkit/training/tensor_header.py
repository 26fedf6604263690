"""The header of a safetensors file: looked at before the library reads all that it promises."""

from __future__ import annotations

from pathlib import Path

from toolkit.common.errors import ToolkitError

LENGTH_BYTES = 8
MOST_BYTES = 4 << 20
"""Some 30,000 tensors with long names; files made to harm list millions that hold nothing."""


def check(path: Path) -> None:
    """Raise ToolkitError where the header is longer than the file, or than any of ours."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        size = file.seek(0, 2)
    if length + LENGTH_BYTES > size:
        raise ToolkitError(
            f"{path} must hold the {length:,} bytes of its header, but has {size:,} in all. "
            f"Use another checkpoint."
        )
    if length > MOST_BYTES:
        raise ToolkitError(
            f"the header of {path} must have at most {MOST_BYTES:,} bytes, but has {length:,}. "
            f"Use another checkpoint."
        )
