"""Requests of text generation, and their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.records import decode_line


class GenerationRequest(NamedTuple):
    """One sentence to process."""

    number: int
    """Number of the line or item, from 1."""
    text: str
    source: list[int] = []  # noqa: RUF012
    """Tokens of the source, or of the prompt of a language model."""
    target: list[int] = []  # noqa: RUF012
    """Forced prefix of the hypotheses, or the whole reference to score."""
    reference: str | None = None
    note: str = ""
    """Why it cannot be processed; empty if it can."""


class EncodedLine(NamedTuple):
    """A line as tokens, and their texts."""

    source: list[int]
    target: list[int]
    text: str
    reference: str | None = None


EncodeLine = Callable[[str], EncodedLine]
"""Encodes a line; raises a ToolkitError if it cannot be processed."""


def parse_line(number: int, line: bytes, encode: EncodeLine) -> GenerationRequest:
    """A line as a request, with a note if it cannot be processed."""
    text, note = decode_line(number, line)
    if note:
        return GenerationRequest(number, text, note=note)
    try:
        encoded = encode(text)
    except ToolkitError as error:
        return GenerationRequest(number, text, note=str(error))
    return GenerationRequest(
        number, encoded.text, encoded.source, encoded.target, encoded.reference
    )


def batch_requests(
    requests: Iterable[GenerationRequest],
    *,
    max_tokens: int,
    batch_size: int,
    same_source_length: bool,
) -> Iterator[list[GenerationRequest]]:
    """Requests of similar length together, longest first, within both limits, padding included.

    With `same_source_length`, only sources of equal length share a batch, as prompts must.
    """
    batch: list[GenerationRequest] = []
    width = 0
    for request in sorted(requests, key=request_lengths, reverse=True):
        wider = max(width, *request_lengths(request))
        full = len(batch) >= batch_size or wider * (len(batch) + 1) > max_tokens
        if batch and (full or (same_source_length and len(request.source) != len(batch[0].source))):
            yield batch
            batch, wider = [], max(request_lengths(request))
        batch.append(request)
        width = wider
    if batch:
        yield batch


def request_lengths(request: GenerationRequest) -> tuple[int, int]:
    """Tokens of the source and of the target, each with its end symbol."""
    return len(request.source) + 1, len(request.target) + 1


def select_rank_batches(
    batches: Sequence[list[GenerationRequest]], rank: int, ranks: int
) -> list[list[GenerationRequest]]:
    """The batches of one rank."""
    return list(batches[rank::ranks])
