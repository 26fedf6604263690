"""CoNLL columns: a word and its tag per line, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toolkit.data.formats.tagging.sentence import ParsedSentence, TaggedSentence, attach_source
from toolkit.data.formats.tagging.tag_fields import MISSING_TAG
from toolkit.data.text_files import raise_at_line, read_strict_text


def read_conll_columns(path: Path, *, untagged: bool = False) -> Iterator[TaggedSentence]:
    """The first two columns of each line.

    Tabs separate them if the first line has one, else single spaces; all lines have equally many.
    With `untagged`, `_` may stand for an unknown tag.
    """
    data, _ = read_strict_text(path)
    return attach_source(parse_sentences(path, data, untagged), data)


def parse_sentences(path: Path, data: bytes, untagged: bool) -> Iterator[ParsedSentence]:
    separator, columns, offset, start = b"", 0, 0, 0
    sentence = TaggedSentence.empty()
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            separator = separator or (b"\t" if b"\t" in line else b" ")
            parts = line.split(separator)
            columns = columns or len(parts)
            check_columns(path, number, parts, columns, separator)
            word, tag = parts[0].decode(), parts[1].decode()
            if tag == MISSING_TAG and not untagged:
                raise_at_line(
                    path, number, f"a word must have a tag, but {word!r} has {MISSING_TAG}."
                )
            start = start if sentence.words else offset
            first = offset - start + len(parts[0]) + 1
            sentence.add(word, tag, (first, first + len(parts[1])), number)
        elif sentence.words:
            yield ParsedSentence(sentence, start, offset)
            sentence = TaggedSentence.empty()
        offset += len(line) + 1
    if sentence.words:
        yield ParsedSentence(sentence, start, len(data))


def check_columns(
    path: Path, number: int, parts: list[bytes], columns: int, separator: bytes
) -> None:
    name = "tabs" if separator == b"\t" else "single spaces"
    if len(parts) < 2:
        raise_at_line(
            path, number, f"a line must have a word and its tag with {name} between them."
        )
    if len(parts) != columns:
        raise_at_line(
            path,
            number,
            f"a line must have {columns} columns separated by {name}, as the first one, but has "
            f"{len(parts)}.",
        )
    if not parts[0].strip() or not parts[1].strip():
        raise_at_line(path, number, "word and tag must not be empty, but one is.")
