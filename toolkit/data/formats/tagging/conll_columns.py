"""CoNLL columns: a word and its tag per line, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toolkit.data.formats.tagging.sentence import TaggedSentence, attach_gaps
from toolkit.data.formats.tagging.tag_fields import MISSING_TAG
from toolkit.data.text_files import raise_at_line, read_strict_text


def read_conll_columns(path: Path, *, untagged: bool = False) -> Iterator[TaggedSentence]:
    """The first two columns of each line.

    Tabs separate them where the first line has one, else single spaces; all lines have equally
    many. `_` may stand for a tag that is not known where `untagged` is set.
    """
    data, _ = read_strict_text(path)
    return attach_gaps(parse_sentences(path, data, untagged), data)


def parse_sentences(
    path: Path, data: bytes, untagged: bool
) -> Iterator[tuple[TaggedSentence, int, int]]:
    separator, columns, place, begin = b"", 0, 0, 0
    found = TaggedSentence([], [], [], [], b"")
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            separator = separator or (b"\t" if b"\t" in line else b" ")
            parts = line.split(separator)
            columns = columns or len(parts)
            check_columns(path, number, parts, columns, separator)
            if parts[1] == MISSING_TAG.encode() and not untagged:
                word = parts[0].decode()
                raise_at_line(
                    path, number, f"a word must have a tag, but {word!r} has {MISSING_TAG}."
                )
            begin = begin if found.words else place
            first = place - begin + len(parts[0]) + 1
            found.words.append(parts[0].decode())
            found.tags.append(parts[1].decode())
            found.tag_spans.append((first, first + len(parts[1])))
            found.lines.append(number)
        elif found.words:
            yield found, begin, place
            found = TaggedSentence([], [], [], [], b"")
        place += len(line) + 1
    if found.words:
        yield found, begin, len(data)


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
