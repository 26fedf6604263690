"""What SentencePiece tells of each piece, read from the message that it serializes.

The message is of protocol buffers: fields, each a key and a value. All versions of the library give
it as bytes, and reading five fields needs no further package.
"""

from __future__ import annotations

from collections.abc import Iterator

PIECES = 2  # of the text
ID, BEGIN, END = 2, 4, 5  # of a piece
VARINT, BYTES = 0, 2  # how a value is laid out
FIXED = {1: 8, 5: 4}  # how many bytes others have


def pieces_of(message: bytes) -> list[tuple[int, int, int]]:
    """Id of each piece, and the bytes of the text from which and before which it stands."""
    found = []
    for field, value in fields(message):
        if field == PIECES and isinstance(value, bytes):
            told = dict(fields(value))
            number, begin, end = (told.get(name, 0) for name in (ID, BEGIN, END))
            assert isinstance(number, int), "an id is a number"
            assert isinstance(begin, int) and isinstance(end, int), "places are numbers"
            found.append((number, begin, end))
    return found


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        field, layout = key >> 3, key & 7
        if layout == VARINT:
            value, at = varint(message, at)
            yield field, value
            continue
        size = FIXED.get(layout)
        if size is None:
            size, at = varint(message, at)
        yield field, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; and where the next value begins."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def characters(text: str, places: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The same in characters of the text instead of bytes."""
    if text.isascii():
        return places
    of: list[int] = []
    for number, character in enumerate(text):
        of += [number] * len(character.encode())
    of.append(len(text))
    return [
        (piece, of[begin], of[end - 1] + 1 if end > begin else of[begin])
        for piece, begin, end in places
    ]
