"""What every reader of tagged text gives: sentences of words, each with its tag and its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class TaggedSentence(NamedTuple):
    """The words of a sentence, and the bytes that it stands in.

    The bytes of all sentences of a file, back to back, are the file.
    """

    words: list[str]
    tags: list[str]
    tag_spans: list[tuple[int, int]]
    """Where in `source` the text that holds each tag begins and ends."""
    lines: list[int]
    """Line of the file that each word stands on, from 1."""
    source: bytes


class TaggedFile(NamedTuple):
    """The sentences of one file."""

    path: Path
    sentences: list[TaggedSentence]


def attach_gaps(
    sentences: Iterator[tuple[TaggedSentence, int, int]], data: bytes
) -> Iterator[TaggedSentence]:
    """Sentences that say which bytes they are, with what lies between them given to the later one.

    The last sentence gets what follows it.
    """
    held: TaggedSentence | None = None
    reached = 0
    for sentence, begin, end in sentences:
        if held is not None:
            yield held
        shift = begin - reached
        fields = [(b + shift, e + shift) for b, e in sentence.tag_spans]
        held = sentence._replace(tag_spans=fields, source=data[reached:end])
        reached = end
    if held is not None:
        yield held._replace(source=held.source + data[reached:])
