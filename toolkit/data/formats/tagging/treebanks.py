"""Tagged sentences, and the readers of CoNLL columns and the Penn Treebank (Marcus et al. 1993).

CoNLL columns are a word and its tag per line, with a blank line after each sentence. The Penn
Treebank has bracketed .mrg files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toolkit.data.text_files import (
    find_text_start,
    raise_at_line,
    read_strict_text,
)

TAG_COLUMNS = {"upos": 3, "xpos": 4}
FEATURES = 5
MISSING_TAG = "_"


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


TaggedFile = tuple[Path, list[TaggedSentence]]
"""A file and its sentences."""
ParsedSentence = tuple[TaggedSentence, int]
"""A sentence without its bytes, whose tag spans are those in the file; and its end in the file."""


def attach_source(parsed: Iterator[ParsedSentence], data: bytes) -> Iterator[TaggedSentence]:
    """Sentences with their bytes, which include the bytes between this sentence and the last.

    The last sentence also gets the bytes after it.
    """
    pending: TaggedSentence | None = None
    reached = 0
    for sentence, end in parsed:
        if pending is not None:
            yield pending
        spans = [(first - reached, last - reached) for first, last in sentence.tag_spans]
        pending = sentence._replace(tag_spans=spans, source=data[reached:end])
        reached = end
    if pending is not None:
        yield pending._replace(source=pending.source + data[reached:])


DOCUMENT_START = b"-DOCSTART-"
"""First column of a line between two documents of CoNLL-2003; it is no word."""


def read_conll_columns(
    path: Path, *, word_column: int = 1, tag_column: int = 2, untagged: bool = False
) -> Iterator[TaggedSentence]:
    """The word and the tag in two columns of each line, counted from 1.

    Tabs separate them if the first line has one, else single spaces; all lines have equally many.
    Lines that start with # are comments unless one of them has as many. With `untagged`, `_` may
    stand for an unknown tag.
    """
    data, _ = read_strict_text(path)
    columns = (word_column, tag_column)
    return attach_source(parse_sentences(path, data, columns, untagged), data)


def parse_sentences(
    path: Path, data: bytes, columns: tuple[int, int], untagged: bool
) -> Iterator[ParsedSentence]:
    """The sentences of a file, whose lines are checked; `columns` are those of word and tag."""
    offset, (word_column, tag_column) = find_text_start(data), columns
    sentence, lines = TaggedSentence.empty(), data[offset:].split(b"\n")
    filled = [line for line in lines if line.strip() and not line.startswith(DOCUMENT_START)]
    hashed = [line for line in filled if line.startswith(b"#")]
    usual = next((line for line in filled if not line.startswith(b"#")), (*hashed, b"")[0])
    separator = b"\t" if b"\t" in usual else b" "
    width = len(usual.split(separator))
    has_comments = all(len(line.split(separator)) != width for line in hashed)
    for number, line in enumerate(lines, 1):
        is_comment = has_comments and line.startswith(b"#")
        if line.strip() and not (is_comment or line.startswith(DOCUMENT_START)):
            parts = line.removesuffix(b"\r").split(separator)
            check_columns(path, number, parts, width, separator, columns)
            word, tag = parts[word_column - 1].decode(), parts[tag_column - 1].decode()
            if tag == MISSING_TAG and not untagged:
                raise_at_line(
                    path, number, f"a word must have a tag, but {word!r} has {MISSING_TAG}."
                )
            first = offset + sum(len(part) + 1 for part in parts[: tag_column - 1])
            sentence.add(word, tag, (first, first + len(parts[tag_column - 1])), number)
        elif sentence.words and not is_comment:
            yield sentence, offset
            sentence = TaggedSentence.empty()
        offset += len(line) + 1
    if sentence.words:
        yield sentence, len(data)


def check_columns(
    path: Path,
    number: int,
    parts: list[bytes],
    width: int,
    separator: bytes,
    columns: tuple[int, int],
) -> None:
    """Raise a ToolkitError unless a line has the columns of the lines before it."""
    name = "tabs" if separator == b"\t" else "single spaces"
    if len(parts) < 2:
        raise_at_line(
            path, number, f"a line must have a word and its tag with {name} between them."
        )
    if len(parts) != width:
        raise_at_line(
            path,
            number,
            f"a line must have {width} columns separated by {name}, as the first one, but has "
            f"{len(parts)}.",
        )
    for option, column in zip(("--word-column", "--tag-column"), columns, strict=True):
        if width < column:
            raise_at_line(
                path,
                number,
                f"{option} {column} requires {column} columns separated by {name}, but the line "
                f"has {width}.",
            )
    if not all(parts[column - 1].strip() for column in columns):
        raise_at_line(path, number, "word and tag must not be empty, but one is.")


TRACE = "-NONE-"
BRACKETS = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"},
    **{"-LCB-": "{", "-RCB-": "}"},
}
_TOKEN = re.compile(rb"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|[()]|[^\s()]+")


def read_penn_treebank(path: Path) -> Iterator[TaggedSentence]:
    """The sentences of a bracketed file."""
    data, _ = read_strict_text(path)
    return attach_source(parse_bracketed(path, data), data)


def unescape(word: str) -> str:
    r"""-LRB- is (, \/ is /, \* is *."""
    return BRACKETS.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def first_tag(tags: str) -> str:
    """The first of several tags that the annotators could not decide between, as in JJ|NN."""
    return tags.split("|")[0] or tags


def parse_bracketed(path: Path, data: bytes) -> Iterator[ParsedSentence]:
    """The leaves of each tree with their parts of speech, without traces."""
    depth, start, line, counted = 0, 0, 1, 0
    sentence = TaggedSentence.empty()
    for token in _TOKEN.finditer(data, find_text_start(data)):
        line += data.count(b"\n", counted, token.start())
        counted = token.start()
        if depth == 0 and token[0] != b"(":
            raise_at_line(
                path, line, f"a tree must begin with (, but here is {token[0][:40].decode()!r}."
            )
        if depth == 0 or (token[0] == b"(" and data[token.start() - 1 : token.start()] == b"\n"):
            check_balanced(path, data, start, depth)
            start, sentence = token.start(), TaggedSentence.empty()
        if token[1] is None:
            depth += {b"(": 1, b")": -1}.get(token[0], 0)
        elif token[1].decode() != TRACE:
            word, tag = unescape(token[2].decode()), first_tag(token[1].decode())
            sentence.add(word, tag, token.span(1), line)
        if depth == 0 and sentence.words:
            yield sentence, token.end()
    check_balanced(path, data, start, depth)


def check_balanced(path: Path, data: bytes, start: int, depth: int) -> None:
    """Raise a ToolkitError if a tree ends with open brackets."""
    if depth:
        line = data.count(b"\n", 0, start) + 1
        raise_at_line(
            path, line, f"brackets must be balanced, but {depth} of this tree are not closed."
        )


def set_feature(field: str, name: str, value: str) -> str:
    """The column FEATS with one feature set, or removed for `_`, in alphabetical order."""
    features = parse_features(field)
    if features.get(name, MISSING_TAG) == value:
        return field
    features.pop(name, None)
    if value != MISSING_TAG:
        features[name] = value
    return "|".join(f"{n}={features[n]}" for n in sorted(features, key=str.lower)) or MISSING_TAG


def parse_features(field: str) -> dict[str, str]:
    """The features of the column FEATS."""
    return dict(part.split("=", 1) for part in field.split("|") if "=" in part)
