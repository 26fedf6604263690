"""Lines in, the best tokens for their gaps out: every line is answered once, and in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.generation.requests import decoded

Filling = list[tuple[str, float]]
"""Tokens and their probabilities, most probable first."""


class Filled(NamedTuple):
    """What a model makes of one sentence."""

    gaps: list[Filling]
    sentence: str = ""
    """The sentence as the model would have it, where that is asked for."""


Fill = Callable[[Sequence[str]], list[Filled]]
Measure = Callable[[str], int]
"""Tokens of a sentence; a ToolkitError says why it cannot be filled."""


class Answer(NamedTuple):
    line: int
    """Number of the line, from 1."""
    text: str
    gaps: list[Filling]
    note: str
    """Why there are no gaps to fill; empty where there are some."""
    sentence: str = ""
    """The line as the model would have it, where that is asked for."""


def answers(
    lines: Iterable[bytes], fill: Fill, measure: Measure, *, buffer_size: int, max_tokens: int
) -> Iterator[Answer]:
    """One answer a line, in order; `buffer_size` lines at a time are sorted by length and filled.

    A line that cannot be filled (empty, no gap, too long, not UTF-8) is answered with a note.
    """
    numbered = enumerate(lines, 1)
    while buffer := list(islice(numbered, buffer_size)):
        done = {number: refused(number, line, measure, max_tokens) for number, line in buffer}
        ready = [a for a in done.values() if not a.note]
        for batch in batches([(measure(a.text), a) for a in ready], max_tokens):
            for answer, filled in zip(batch, fill([a.text for a in batch]), strict=True):
                done[answer.line] = answer._replace(gaps=filled.gaps, sentence=filled.sentence)
        yield from done.values()


def refused(number: int, line: bytes, measure: Measure, max_tokens: int) -> Answer:
    """The line as text, with a note where nothing can be filled in."""
    text, note = decoded(number, line)
    if note:
        return Answer(number, text, [], note)
    try:
        length = measure(text)
    except ToolkitError as error:
        return Answer(number, text, [], str(error))
    note = f"{length} tokens, more than --max-tokens {max_tokens}" if length > max_tokens else ""
    return Answer(number, text, [], note)


def batches(sized: Iterable[tuple[int, Answer]], max_tokens: int) -> Iterator[list[Answer]]:
    """Neighbours in length together, each batch at most `max_tokens` with its padding."""
    batch: list[Answer] = []
    for length, answer in sorted(sized, key=lambda pair: pair[0]):
        if batch and length * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(answer)
    if batch:
        yield batch
