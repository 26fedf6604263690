"""CoNLL-U: ten columns per word, a blank line after each sentence (Nivre et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from conllu import parse_token_and_metadata
from conllu.exceptions import ParseException
from conllu.parser import DEFAULT_FIELDS

from toolkit.data.formats.tagging.sentence import TaggedSentence
from toolkit.data.formats.tagging.tag_fields import FEATURES, MISSING_TAG, TAG_COLUMNS, column_of
from toolkit.data.text_files import raise_at_line, read_strict_text


class ConlluOptions(NamedTuple):
    """What is read of a file."""

    tag: str
    """upos, xpos or the name of a feature; a word without that feature is tagged `_`."""
    empty_nodes: bool = False
    """Empty nodes are words too."""
    untagged: bool = False
    """`_` may stand for a tag that is not known."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns to parse: those up to the tag."""
        return DEFAULT_FIELDS[: column_of(self.tag) + 1]


def read_conllu(path: Path, wanted: ConlluOptions) -> Iterator[TaggedSentence]:
    """The syntactic words of each sentence, multiword ranges left out."""
    data, text = read_strict_text(path)
    if not text.endswith("\n\n"):
        last = text.removesuffix("\n").count("\n") + 1
        raise_at_line(
            path,
            last,
            "a blank line must follow the last sentence, but the file ends here. It may be cut "
            "off; else add one.",
        )
    raw, shown = data.split(b"\n"), text.split("\n")
    begin = 0
    while (end := block_end(shown, begin)) > begin:
        numbered = [n for n in range(begin, end) if shown[n].strip() and shown[n][0] != "#"]
        for number in numbered:
            check_columns(path, number + 1, shown[number])
        if numbered:
            tokens = parse_words(path, numbered, shown, wanted.fields)
            yield build_sentence(path, tokens, numbered, raw[begin:end], begin, wanted)
        else:
            raise_at_line(
                path, begin + 1, "comments must belong to a sentence, but no word follows them."
            )
        begin = end


def block_end(lines: Sequence[str], begin: int) -> int:
    """The line after a sentence and the blank lines around it."""
    end, last = begin, len(lines) - 1
    for blank in (True, False, True):
        while end < last and (not lines[end].strip()) == blank:
            end += 1
    return end


def check_columns(path: Path, number: int, line: str) -> None:
    columns = line.split("\t")
    if len(columns) != 10:
        spaced = len(columns) == 1 and len(line.split()) >= 10
        fault = (
            "but these are separated by spaces. Save the file with its tabs."
            if spaced
            else f"but there are {len(columns)}. Correct the line."
        )
        raise_at_line(path, number, f"a word must have 10 columns separated by tabs, {fault}")
    if "  " in line and any("  " in column for column in columns[: FEATURES + 1]):
        raise_at_line(path, number, "a column must not have two spaces in a row, but one has.")


def parse_words(
    path: Path, numbers: Sequence[int], lines: Sequence[str], fields: tuple[str, ...]
) -> Sequence[Any]:
    """The words of one sentence as the package conllu reads them."""
    try:
        return parse_token_and_metadata("\n".join(lines[n] for n in numbers), fields)
    except ParseException as error:
        for number in numbers:  # whose line it is
            try:
                parse_token_and_metadata(lines[number], fields)
            except ParseException:
                raise_at_line(path, number + 1, f"a word must be CoNLL-U, but is not: {error}")
        raise


def build_sentence(
    path: Path,
    tokens: Sequence[Any],
    numbers: Sequence[int],
    raw: Sequence[bytes],
    first: int,
    wanted: ConlluOptions,
) -> TaggedSentence:
    """The syntactic words; `raw` are the sentence's lines, which follow line `first`."""
    starts = [0]
    for line in raw:
        starts.append(starts[-1] + len(line) + 1)
    found = TaggedSentence([], [], [], [], b"".join(line + b"\n" for line in raw))
    expected = 1
    for token, number in zip(tokens, numbers, strict=True):
        if isinstance(token["id"], int):
            check_number(path, number + 1, token["id"], expected)
            expected += 1
        elif token["id"] is None or token["id"][1] == "-" or not wanted.empty_nodes:
            continue
        if not token["form"].strip():
            raise_at_line(
                path, number + 1, "a word must not be empty, but this one is. Fill in FORM."
            )
        found.words.append(token["form"])
        found.tags.append(read_tag(path, number + 1, token, wanted))
        begin, end = column_span(raw[number - first], column_of(wanted.tag))
        found.tag_spans.append((starts[number - first] + begin, starts[number - first] + end))
        found.lines.append(number + 1)
    if not found.words:
        raise_at_line(path, numbers[0] + 1, "a sentence must have a word, but has ranges alone.")
    return found


def check_number(path: Path, line: int, number: int, expected: int) -> None:
    if number != expected:
        remedy = (
            "A blank line is missing before it." if number == 1 else "A line is missing or twice."
        )
        raise_at_line(
            path, line, f"the word's number must be {expected}, but is {number}. {remedy}"
        )


def read_tag(path: Path, line: int, token: Any, wanted: ConlluOptions) -> str:
    tag = wanted.tag
    if tag not in TAG_COLUMNS:
        return str((token["feats"] or {}).get(tag) or MISSING_TAG)
    if token[tag] in (None, MISSING_TAG, "") and not wanted.untagged:
        article = "an" if tag == "xpos" else "a"
        raise_at_line(
            path,
            line,
            f"a word must have {article} {tag.upper()} tag, but {token['form']!r} has _. Choose "
            f"another --tag, or complete the treebank.",
        )
    return str(token[tag] or MISSING_TAG)


def column_span(line: bytes, column: int) -> tuple[int, int]:
    """Where a column of a line begins and ends."""
    columns = line.split(b"\t", column + 1)
    begin = sum(len(it) + 1 for it in columns[:column])
    return begin, begin + len(columns[column])
