"""SHA-256 digests of texts and files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from toolkit.common.input_files import open_regular

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
    """Hexadecimal SHA-256 of a file's size and of 64 evenly spread chunks of 4 KiB.

    They include the first and the last. Changes elsewhere do not change the digest.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    last = max(0, size - SAMPLE_BYTES)
    step = last / (SAMPLES - 1)
    with open_regular(path) as file:
        for offset in (*(int(sample * step) for sample in range(SAMPLES - 1)), last):
            file.seek(offset)
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
