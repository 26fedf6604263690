"""Text of annotated files, of which every byte counts."""

from __future__ import annotations

from pathlib import Path

from toolkit.data.text_files import BOM, decode_file, raise_at_line, read_bytes


def read_strict_text(path: Path) -> tuple[bytes, str]:
    """The bytes of an annotated file, and their text as `decode_strict` gives it."""
    data = read_bytes(path)
    if not data.removeprefix(BOM).strip():
        raise_at_line(path, 1, "the file is empty. Give another file.")
    return data, decode_strict(path, data)


def decode_strict(path: Path, data: bytes, lines_before: int = 0) -> str:
    """The text of an annotated file, or of its lines after the first `lines_before`.

    Line ends become LF, and a BOM is left out.
    """
    text = decode_file(path, data, lines_before).replace("\r\n", "\n")
    if "\r" in text:
        line = lines_before + text.count("\n", 0, text.index("\r")) + 1
        raise_at_line(
            path, line, "found a carriage return inside a line. End lines with LF or CRLF."
        )
    return text if lines_before else text.removeprefix(BOM.decode())


def find_text_start(data: bytes) -> int:
    """Index of the first byte after a BOM."""
    return len(data) - len(data.removeprefix(BOM))
