"""Tagged sentences, as every reader of tagged text yields them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class TaggedSentence(NamedTuple):
    """The words of a sentence, and its bytes.

    The bytes of all sentences of a file, back to back, are the file.
    """

    words: list[str]
    tags: list[str]
    tag_spans: list[tuple[int, int]]
    """Span of each tag in `source`."""
    lines: list[int]
    """Line of each word in the file, counted from 1."""
    source: bytes

    @classmethod
    def empty(cls, source: bytes = b"") -> TaggedSentence:
        return cls([], [], [], [], source)

    def add(self, word: str, tag: str, span: tuple[int, int], line: int) -> None:
        self.words.append(word)
        self.tags.append(tag)
        self.tag_spans.append(span)
        self.lines.append(line)


class ParsedSentence(NamedTuple):
    """A sentence without its bytes, and their span in the file; tag spans start with it."""

    sentence: TaggedSentence
    start: int
    end: int


class TaggedFile(NamedTuple):
    """The sentences of one file."""

    path: Path
    sentences: list[TaggedSentence]


def attach_source(parsed: Iterator[ParsedSentence], data: bytes) -> Iterator[TaggedSentence]:
    """Sentences with their bytes, which include the bytes between this sentence and the last.

    The last sentence also gets the bytes after it.
    """
    pending: TaggedSentence | None = None
    reached = 0
    for sentence, start, end in parsed:
        if pending is not None:
            yield pending
        shift = start - reached
        spans = [(first + shift, last + shift) for first, last in sentence.tag_spans]
        pending = sentence._replace(tag_spans=spans, source=data[reached:end])
        reached = end
    if pending is not None:
        yield pending._replace(source=pending.source + data[reached:])
