"""Lines in, the best tokens for their gaps out: every line is answered once, and in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.generation.requests import decode_line

MaskPrediction = list[tuple[str, float]]
"""Tokens and their probabilities, most probable first."""


class FilledSentence(NamedTuple):
    """What a model makes of one sentence."""

    masks: list[MaskPrediction]
    sentence: str = ""
    """The sentence as the model would have it, where that is asked for."""


FillFunction = Callable[[Sequence[str]], list[FilledSentence]]
CountTokens = Callable[[str], int]
"""Tokens of a sentence; a ToolkitError says why it cannot be filled."""


class FillMaskOutput(NamedTuple):
    line: int
    """Number of the line, from 1."""
    text: str
    masks: list[MaskPrediction]
    note: str
    """Why there are no gaps to fill; empty where there are some."""
    sentence: str = ""
    """The line as the model would have it, where that is asked for."""


def fill_lines(
    lines: Iterable[bytes],
    fill: FillFunction,
    measure: CountTokens,
    *,
    buffer_size: int,
    max_tokens: int,
) -> Iterator[FillMaskOutput]:
    """One answer a line, in order; `buffer_size` lines at a time are sorted by length and filled.

    A line that cannot be filled (empty, no gap, too long, not UTF-8) is answered with a note.
    """
    numbered = enumerate(lines, 1)
    while buffer := list(islice(numbered, buffer_size)):
        done = {number: check_line(number, line, measure, max_tokens) for number, line in buffer}
        ready = [a for a in done.values() if not a.note]
        for batch in batch_by_length([(measure(a.text), a) for a in ready], max_tokens):
            for answer, filled in zip(batch, fill([a.text for a in batch]), strict=True):
                done[answer.line] = answer._replace(masks=filled.masks, sentence=filled.sentence)
        yield from done.values()


def check_line(number: int, line: bytes, measure: CountTokens, max_tokens: int) -> FillMaskOutput:
    """The line as text, with a note where nothing can be filled in."""
    text, note = decode_line(number, line)
    if note:
        return FillMaskOutput(number, text, [], note)
    try:
        length = measure(text)
    except ToolkitError as error:
        return FillMaskOutput(number, text, [], str(error))
    note = f"{length} tokens, more than --max-tokens {max_tokens}" if length > max_tokens else ""
    return FillMaskOutput(number, text, [], note)


def batch_by_length(
    sized: Iterable[tuple[int, FillMaskOutput]], max_tokens: int
) -> Iterator[list[FillMaskOutput]]:
    """Neighbors in length together, each batch at most `max_tokens` with its padding."""
    batch: list[FillMaskOutput] = []
    for length, answer in sorted(sized, key=lambda pair: pair[0]):
        if batch and length * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(answer)
    if batch:
        yield batch
