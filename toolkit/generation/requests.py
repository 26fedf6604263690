"""What is to be answered: lines of text or items of a split, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from toolkit.common.errors import ToolkitError


class GenerationRequest(NamedTuple):
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


class EncodedLine(NamedTuple):
    """A line as tokens, and the texts they are of."""

    source: list[int]
    target: list[int]
    text: str
    reference: str | None = None


EncodeLine = Callable[[str], EncodedLine]
"""What a line asks for; a ToolkitError says why it cannot be answered."""


def parse_line(number: int, line: bytes, code: EncodeLine) -> GenerationRequest:
    """A line as an item, with a note where it is no text or has no answer."""
    text, note = decode_line(number, line)
    if note:
        return GenerationRequest(number, text, note=note)
    try:
        coded = code(text)
    except ToolkitError as error:
        return GenerationRequest(number, text, note=str(error))
    return GenerationRequest(number, coded.text, coded.source, coded.target, coded.reference)


def decode_line(number: int, line: bytes) -> tuple[str, str]:
    """The text of a line without its end, and what is wrong with it; empty where nothing is."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n"), ""
    except UnicodeDecodeError as error:
        text = line.decode("utf-8", errors="replace").rstrip("\r\n")
        return text, f"not UTF-8 at byte {error.start + 1}"


def batch_requests(
    requests: Iterable[GenerationRequest],
    *,
    max_tokens: int,
    batch_size: int,
    same_source_length: bool,
) -> Iterator[list[GenerationRequest]]:
    """Neighbors in length together, longest first, so many tokens with padding and so many items.

    `alike`, sources of one length alone go together, as prompts must.
    """
    batch: list[GenerationRequest] = []
    width = 0
    for item in sorted(requests, key=request_lengths, reverse=True):
        wider = max(width, *request_lengths(item))
        full = len(batch) >= batch_size or wider * (len(batch) + 1) > max_tokens
        if batch and (full or (same_source_length and len(item.source) != len(batch[0].source))):
            yield batch
            batch, wider = [], max(request_lengths(item))
        batch.append(item)
        width = wider
    if batch:
        yield batch


def request_lengths(item: GenerationRequest) -> tuple[int, int]:
    """Tokens of the source and of the target, each with its end."""
    return len(item.source) + 1, len(item.target) + 1


def select_rank_batches(
    found: Sequence[list[GenerationRequest]], rank: int, ranks: int
) -> list[list[GenerationRequest]]:
    """This rank's batches."""
    return list(found[rank::ranks])
