"""What is to be answered: lines of text or items of a split, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from toolkit.common.errors import ToolkitError


class Item(NamedTuple):
    """One sentence to be answered."""

    number: int
    """Of its line or its item, from 1."""
    text: str
    source: list[int] = []  # noqa: RUF012
    """Tokens that are read: the source, or the prompt of a language model."""
    target: list[int] = []  # noqa: RUF012
    """Tokens that what is written begins with, or all there are where references are scored."""
    reference: str | None = None
    note: str = ""
    """Why it cannot be answered; empty where it can."""


class Coded(NamedTuple):
    """A line as tokens, and the texts they are of."""

    source: list[int]
    target: list[int]
    text: str
    reference: str | None = None


Code = Callable[[str], Coded]
"""What a line asks for; a ToolkitError says why it cannot be answered."""


def read_line(number: int, line: bytes, code: Code) -> Item:
    """A line as an item, with a note where it is no text or has no answer."""
    text, note = decoded(number, line)
    if note:
        return Item(number, text, note=note)
    try:
        coded = code(text)
    except ToolkitError as error:
        return Item(number, text, note=str(error))
    return Item(number, coded.text, coded.source, coded.target, coded.reference)


def decoded(number: int, line: bytes) -> tuple[str, str]:
    """The text of a line without its end, and what is wrong with it; empty where nothing is."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n"), ""
    except UnicodeDecodeError as error:
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        return text, f"not UTF-8 at byte {error.start + 1}"


def batches(
    items: Iterable[Item], *, max_tokens: int, batch_size: int, alike: bool
) -> Iterator[list[Item]]:
    """Neighbours in length together, longest first, so many tokens with padding and so many items.

    `alike`, sources of one length alone go together, as prompts must.
    """
    batch: list[Item] = []
    width = 0
    for item in sorted(items, key=lengths, reverse=True):
        wider = max(width, *lengths(item))
        full = len(batch) >= batch_size or wider * (len(batch) + 1) > max_tokens
        if batch and (full or (alike and len(item.source) != len(batch[0].source))):
            yield batch
            batch, wider = [], max(lengths(item))
        batch.append(item)
        width = wider
    if batch:
        yield batch


def lengths(item: Item) -> tuple[int, int]:
    """Tokens of the source and of the target, each with its end."""
    return len(item.source) + 1, len(item.target) + 1


def share(found: Sequence[list[Item]], rank: int, ranks: int) -> list[list[Item]]:
    """This rank's batches."""
    return list(found[rank::ranks])
