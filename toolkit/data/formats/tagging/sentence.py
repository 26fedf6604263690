"""What every reader of tagged text gives: sentences of words, each with its tag and its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from toolkit.common.errors import ToolkitError


class Sentence(NamedTuple):
    """The words of a sentence, and the bytes that it stands in.

    The bytes of all sentences of a file, back to back, are the file.
    """

    words: list[str]
    tags: list[str]
    fields: list[tuple[int, int]]
    """Where in `source` the text that holds each tag begins and ends."""
    lines: list[int]
    """Line of the file that each word stands on, from 1."""
    source: bytes


def refuse(path: Path, line: int, what: str) -> NoReturn:
    """A user's mistake in a file, by its place."""
    raise ToolkitError(f"{path}:{line}: {what}")


def refuse_without_words(path: Path, sentences: list[Sentence]) -> None:
    if not sentences:
        refuse(path, 1, "the file must hold a sentence, but holds none. Give another file.")


def with_rest(sentences: Iterator[tuple[Sentence, int, int]], data: bytes) -> Iterator[Sentence]:
    """Sentences that say which bytes they are, with what lies between them given to the later one.

    What lies behind the last goes to that.
    """
    held: Sentence | None = None
    reached = 0
    for sentence, begin, end in sentences:
        if held is not None:
            yield held
        shift = begin - reached
        fields = [(b + shift, e + shift) for b, e in sentence.fields]
        held = sentence._replace(fields=fields, source=data[reached:end])
        reached = end
    if held is not None:
        yield held._replace(source=held.source + data[reached:])
