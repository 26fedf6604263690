"""SHA-256 digests of texts and files."""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK_BYTES = 1 << 20


def sha256(data: str | bytes) -> str:
    """Hexadecimal SHA-256 of bytes, or of a text in UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's content, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
