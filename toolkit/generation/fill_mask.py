"""Fill the masks of lines: one output per line, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.records import decode_line
from toolkit.generation.output import FillMaskOutput, MaskPrediction


class FilledSentence(NamedTuple):
    """The predictions of a model for one sentence."""

    masks: list[MaskPrediction]
    sentence: str = ""
    """The sentence in its predicted order, if words are ordered."""


FillFunction = Callable[[Sequence[str]], list[FilledSentence]]
CountTokens = Callable[[str], int]
"""Number of tokens of a sentence; raises a ToolkitError if there is nothing to predict."""


def fill_lines(
    lines: Iterable[bytes],
    fill: FillFunction,
    count_tokens: CountTokens,
    *,
    buffer_size: int,
    max_tokens: int,
) -> Iterator[FillMaskOutput]:
    """One output per line, in order; `buffer_size` lines at a time are sorted by length.

    A line with nothing to predict (empty, no mask, too long, not UTF-8) gets a note.
    """
    numbered = enumerate(lines, 1)
    while buffer := list(islice(numbered, buffer_size)):
        outputs: dict[int, FillMaskOutput] = {}
        sized: list[tuple[int, FillMaskOutput]] = []
        for number, line in buffer:
            length, output = measure_line(number, line, count_tokens, max_tokens)
            outputs[number] = output
            sized += [] if output.note else [(length, output)]
        for batch in batch_by_length(sized, max_tokens):
            filled = fill([output.text for output in batch])
            for output, (masks, sentence) in zip(batch, filled, strict=True):
                outputs[output.number] = output._replace(masks=masks, sentence=sentence)
        yield from outputs.values()


def measure_line(
    number: int, line: bytes, count_tokens: CountTokens, max_tokens: int
) -> tuple[int, FillMaskOutput]:
    """The line's number of tokens, and its text with a note if nothing can be predicted."""
    text, note = decode_line(number, line)
    length = 0
    if not note:
        try:
            length = count_tokens(text)
        except ToolkitError as error:
            note = str(error)
    if length > max_tokens:
        note = f"{length} tokens, more than --max-tokens {max_tokens}"
    return length, FillMaskOutput(number, text, note=note)


def batch_by_length(
    sized: Iterable[tuple[int, FillMaskOutput]], max_tokens: int
) -> Iterator[list[FillMaskOutput]]:
    """Lines of similar length together, at most `max_tokens` per batch, padding included."""
    batch: list[FillMaskOutput] = []
    for length, output in sorted(sized, key=lambda pair: pair[0]):
        if batch and length * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(output)
    if batch:
        yield batch
