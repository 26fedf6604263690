"""CoNLL-U: ten columns per word, a blank line after each sentence (Nivre et al. 2016).

It is read sentence by sentence from a stream, and written back with other tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from conllu import parse_token_and_metadata
from conllu.exceptions import ParseException
from conllu.models import Token
from conllu.parser import DEFAULT_FIELDS

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.split import render_field, replace_tags
from toolkit.data.formats.tagging.treebanks import (
    FEATURES,
    MISSING_TAG,
    TAG_COLUMNS,
    TaggedSentence,
)
from toolkit.data.text_files import decode_strict, raise_at_line, read_strict_text


class StreamedSentence(NamedTuple):
    """A sentence of a stream, or the reason why it is malformed."""

    line: int
    """Its first line, counted from 1."""
    sentence: TaggedSentence
    problem: str = ""


def stream_conllu(
    lines: Iterable[bytes], path: Path, options: ConlluOptions
) -> Iterator[StreamedSentence]:
    """Each sentence with the blank line after it, and with any before it."""
    block, first, filled = list[bytes](), 0, False
    for number, line in enumerate(lines):
        block.append(line)
        filled |= bool(line.strip())
        if filled and not line.strip():
            yield read_block(block, path, first, options)
            block, first, filled = [], number + 1, False
    if filled:
        last = first + len(block)
        problem = "a blank line must follow the last sentence, but the input ends here. Add one."
        source = TaggedSentence.empty(b"".join(block))
        yield StreamedSentence(first + 1, source, f"{path}:{last}: {problem}")
    elif block:
        yield StreamedSentence(first + 1, TaggedSentence.empty(b"".join(block)))


def read_block(
    block: Sequence[bytes], path: Path, first: int, options: ConlluOptions
) -> StreamedSentence:
    """The sentence in these lines, which follow the `first` lines of the file."""
    data = b"".join(block)
    try:
        text = decode_strict(path, data, first)
        byte_lines, lines = data.split(b"\n")[:-1], text.split("\n")[:-1]
        return StreamedSentence(first + 1, parse_sentence(path, lines, byte_lines, first, options))
    except ToolkitError as error:
        return StreamedSentence(first + 1, TaggedSentence.empty(data), str(error))


def replace_sentence_tags(
    sentence: TaggedSentence, tags: Sequence[str], options: ConlluOptions
) -> str:
    """The sentence's text with other tags in their column; all else is unchanged."""
    feature = "" if options.tag in TAG_COLUMNS else options.tag
    render = partial(render_field, feature=feature, alternatives=False)
    return replace_tags(sentence.source, sentence.tag_spans, tags, render).decode(errors="replace")


INVALID = ParseException, ValueError
"""What the package conllu raises; the second for numbers of thousands of digits."""


class ConlluOptions(NamedTuple):
    """Options of the CoNLL-U reader."""

    tag: str
    """upos, xpos or the name of a feature; a word without that feature is tagged `_`."""
    empty_nodes: bool = False
    """Whether empty nodes are words."""
    untagged: bool = False
    """Whether `_` may stand for an unknown tag."""


def read_conllu(path: Path, options: ConlluOptions) -> Iterator[TaggedSentence]:
    """The syntactic words of each sentence, without multiword ranges."""
    data, text = read_strict_text(path)
    if not text.endswith("\n\n"):
        last = text.removesuffix("\n").count("\n") + 1
        raise_at_line(
            path,
            last,
            "a blank line must follow the last sentence, but the file ends here. It may be cut "
            "off; else add one.",
        )
    byte_lines, lines = data.split(b"\n"), text.split("\n")
    start = 0
    while (end := find_block_end(lines, start)) > start:
        yield parse_sentence(path, lines[start:end], byte_lines[start:end], start, options)
        start = end


def parse_sentence(
    path: Path,
    lines: Sequence[str],
    byte_lines: Sequence[bytes],
    first: int,
    options: ConlluOptions,
) -> TaggedSentence:
    """The sentence in these lines, which follow the `first` lines of the file."""
    words = {n: line for n, line in enumerate(lines, first) if line.strip() and line[0] != "#"}
    if not words:
        raise_at_line(
            path, first + 1, "comments must belong to a sentence, but no word follows them."
        )
    starts = list(accumulate((len(line) + 1 for line in byte_lines), initial=0))
    sentence = TaggedSentence.empty(b"".join(line + b"\n" for line in byte_lines))
    column, expected = TAG_COLUMNS.get(options.tag, FEATURES), 1
    for number, line in words.items():
        check_columns(path, number + 1, line)
    tokens = parse_words(path, words, DEFAULT_FIELDS[: column + 1])
    for token, number in zip(tokens, words, strict=True):
        if isinstance(token["id"], int):
            if token["id"] != expected:
                twice = "A line is missing or twice."
                remedy = "A blank line is missing before it." if token["id"] == 1 else twice
                wrong = f"must be {expected}, but is {token['id']}"
                raise_at_line(path, number + 1, f"the word's number {wrong}. {remedy}")
            expected += 1
        elif token["id"] is None or token["id"][1] == "-" or not options.empty_nodes:
            continue
        if not token["form"].strip():
            raise_at_line(
                path, number + 1, "a word must not be empty, but this one is. Fill in FORM."
            )
        fields = byte_lines[number - first].split(b"\t", column + 1)
        start = starts[number - first] + sum(len(field) + 1 for field in fields[:column])
        tag = read_tag(path, number + 1, token, options)
        sentence.add(token["form"], tag, (start, start + len(fields[column])), number + 1)
    if not sentence.words:
        raise_at_line(path, min(words) + 1, "a sentence must have a word, but has only ranges.")
    return sentence


def find_block_end(lines: Sequence[str], start: int) -> int:
    """The line after a sentence and the blank lines around it."""
    end, last = start, len(lines) - 1
    for blank in (True, False, True):
        while end < last and (not lines[end].strip()) == blank:
            end += 1
    return end


def check_columns(path: Path, number: int, line: str) -> None:
    """Raise a ToolkitError unless a line has CoNLL-U's ten columns."""
    columns = line.split("\t")
    if len(columns) != 10:
        found = f"but there are {len(columns)}. Correct the line."
        if len(columns) == 1 and len(line.split()) >= 10:
            found = "but these are separated by spaces. Save the file with its tabs."
        raise_at_line(path, number, f"a word must have 10 columns separated by tabs, {found}")
    if "  " in line and any("  " in column for column in columns[: FEATURES + 1]):
        raise_at_line(path, number, "a column must not have two spaces in a row, but one has.")


def parse_words(path: Path, words: Mapping[int, str], fields: tuple[str, ...]) -> Sequence[Token]:
    """The words of one sentence, parsed by the package conllu."""
    try:
        return parse_token_and_metadata("\n".join(words.values()), fields)
    except INVALID:
        for number, line in words.items():
            problem = "a number has thousands of digits"
            try:
                parse_token_and_metadata(line, fields)
            except INVALID as error:
                problem = str(error) if isinstance(error, ParseException) else problem
                raise_at_line(path, number + 1, f"a word must be CoNLL-U, but is not: {problem}.")
        raise


def read_tag(path: Path, line: int, token: Token, options: ConlluOptions) -> str:
    """The tag of a word in the chosen column or feature."""
    tag = options.tag
    if tag not in TAG_COLUMNS:
        return str((token["feats"] or {}).get(tag) or MISSING_TAG)
    if token[tag] in (None, MISSING_TAG, "") and not options.untagged:
        article = "an" if tag == "xpos" else "a"
        raise_at_line(
            path,
            line,
            f"a word must have {article} {tag.upper()} tag, but {token['form']!r} has _. Choose "
            f"another --tag, or complete the treebank.",
        )
    return str(token[tag] or MISSING_TAG)
