"""Tagged sentences, and their readers.

CoNLL columns are a word and its tag per line, with a blank line after each sentence. The Penn
Treebank (Marcus et al. 1993) has bracketed .mrg files. CoNLL-U (Nivre et al. 2016) has ten columns
per word; it is read sentence by sentence from a stream, and written back with other tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from conllu.exceptions import ParseException
from conllu.models import Token
from conllu.parser import DEFAULT_FIELDS, parse_line

from toolkit.common.errors import ToolkitError
from toolkit.data.text_files import decode_strict, find_text_start, read_strict_text

TAG_COLUMNS = {"upos": 3, "xpos": 4}
FEATURES = 5
MISSING_TAG = "_"


class TaggedSentence(NamedTuple):
    """The words of a sentence, and its bytes; those of all sentences together are the file."""

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
ParsedSentence = tuple[TaggedSentence, int]
"""A sentence without its bytes, whose tag spans are those in the file; and its end in the file."""


def attach_source(parsed: Iterable[ParsedSentence], data: bytes) -> Iterator[TaggedSentence]:
    """Sentences with their bytes, from the end of the last one; the last one has all the rest."""
    found = list(parsed)
    edges = [0, *(end for _, end in found[:-1]), len(data)]
    for (sentence, _), (start, end) in zip(found, pairwise(edges), strict=False):
        spans = [(first - start, last - start) for first, last in sentence.tag_spans]
        yield sentence._replace(tag_spans=spans, source=data[start:end])


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
    return attach_source(parse_sentences(path, data, (word_column, tag_column), untagged), data)


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
    expected = max(width, *columns)
    has_comments = all(len(line.split(separator)) != width for line in hashed)
    for number, line in enumerate(lines, 1):
        is_comment = has_comments and line.startswith(b"#")
        if line.strip() and not (is_comment or line.startswith(DOCUMENT_START)):
            parts = line.removesuffix(b"\r").split(separator)
            if len(parts) != expected:
                name = "tabs" if separator == b"\t" else "single spaces"
                raise ToolkitError(
                    f"{path}:{number}: a line must have {expected} columns separated by {name}, as "
                    f"the first one or as --word-column and --tag-column say, but has {len(parts)}."
                )
            if not all(parts[column - 1].strip() for column in columns):
                raise ToolkitError(f"{path}:{number}: word and tag must not be empty.")
            word, tag = parts[word_column - 1].decode(), parts[tag_column - 1].decode()
            if tag == MISSING_TAG and not untagged:
                raise ToolkitError(
                    f"{path}:{number}: a word must have a tag, but {word!r} has {MISSING_TAG}."
                )
            first = offset + sum(len(part) + 1 for part in parts[: tag_column - 1])
            sentence.add(word, tag, (first, first + len(parts[tag_column - 1])), number)
        elif sentence.words and not is_comment:
            yield sentence, offset
            sentence = TaggedSentence.empty()
        offset += len(line) + 1
    if sentence.words:
        yield sentence, len(data)


TRACE = "-NONE-"
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_TOKEN = re.compile(rb"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|[()]|[^\s()]+")


def read_penn_treebank(path: Path) -> Iterator[TaggedSentence]:
    """The sentences of a bracketed file."""
    data, _ = read_strict_text(path)
    return attach_source(parse_bracketed(path, data), data)


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
            raise ToolkitError(
                f"{path}:{line}: a tree must begin with (, but here is {token[0][:40].decode()!r}."
            )
        if depth == 0 or (token[0] == b"(" and data[token.start() - 1 : token.start()] == b"\n"):
            check_balanced(path, data, start, depth)
            start, sentence = token.start(), TaggedSentence.empty()
        if token[1] is None:
            depth += {b"(": 1, b")": -1}.get(token[0], 0)
        elif token[1].decode() != TRACE:
            word = token[2].decode()
            word = BRACKETS.get(word, word.replace("\\/", "/").replace("\\*", "*"))
            sentence.add(word, first_tag(token[1].decode()), token.span(1), line)
        if depth == 0 and sentence.words:
            yield sentence, token.end()
    check_balanced(path, data, start, depth)


def check_balanced(path: Path, data: bytes, start: int, depth: int) -> None:
    """Raise a ToolkitError if a tree ends with open brackets."""
    if depth:
        line = data.count(b"\n", 0, start) + 1
        raise ToolkitError(f"{path}:{line}: brackets must be balanced, but {depth} are open.")


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


StreamedSentence = tuple[int, TaggedSentence, str]
"""First line of a sentence in a stream, counted from 1, the sentence, and why it is malformed."""


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
    if block:
        last = f"{path}:{first + len(block)}"
        problem = f"{last}: a blank line must follow the last sentence, but the input ends here."
        source = TaggedSentence.empty(b"".join(block))
        yield first + 1, source, f"{problem} Add one." if filled else ""


def read_block(
    block: Sequence[bytes], path: Path, first: int, options: ConlluOptions
) -> StreamedSentence:
    """The sentence in these lines, which follow the `first` lines of the file."""
    data = b"".join(block)
    try:
        text = decode_strict(path, data, first)
        byte_lines, lines = data.split(b"\n")[:-1], text.split("\n")[:-1]
        return first + 1, parse_sentence(path, lines, byte_lines, first, options), ""
    except ToolkitError as error:
        return first + 1, TaggedSentence.empty(data), str(error)


def replace_tags(
    data: bytes,
    spans: Iterable[tuple[int, int]],
    tags: Sequence[str],
    render: Callable[[str, str], str],
) -> bytes:
    """The bytes of sentences with other tags in these spans; all else is unchanged."""
    parts, reached = list[bytes](), 0
    for (first, last), tag in zip(spans, tags, strict=True):
        parts += [data[reached:first], render(data[first:last].decode(), tag).encode()]
        reached = last
    return b"".join([*parts, data[reached:]])


def render_field(field: str, tag: str, *, feature: str, alternatives: bool) -> str:
    """The field with another tag; of alternatives such as JJ|NN the first is the tag."""
    if feature:
        return set_feature(field, feature, tag)
    return field if alternatives and field.split("|")[0] == tag else tag


def replace_sentence_tags(
    sentence: TaggedSentence, tags: Sequence[str], options: ConlluOptions
) -> str:
    """The sentence's text with other tags in their column; all else is unchanged."""
    feature = "" if options.tag in TAG_COLUMNS else options.tag
    render = partial(render_field, feature=feature, alternatives=False)
    return replace_tags(sentence.source, sentence.tag_spans, tags, render).decode(errors="replace")


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
        raise ToolkitError(
            f"{path}:{last}: a blank line must follow the last sentence, but the file ends here. "
            f"It may be cut off; else add one."
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
    sentence = TaggedSentence.empty(b"".join(line + b"\n" for line in byte_lines))
    column, expected = TAG_COLUMNS.get(options.tag, FEATURES), 1
    starts = accumulate((len(line) + 1 for line in byte_lines), initial=0)
    rows = enumerate(zip(lines, byte_lines, starts, strict=False), first + 1)
    for number, (line, data, start) in rows:
        if not line.strip() or line[0] == "#":
            continue
        token = parse_word(path, number, line, DEFAULT_FIELDS[: column + 1])
        if isinstance(token["id"], int):
            if token["id"] != expected:
                twice = "A line is missing or twice."
                remedy = "A blank line is missing before it." if token["id"] == 1 else twice
                wrong = f"must be {expected}, but is {token['id']}"
                raise ToolkitError(f"{path}:{number}: the word's number {wrong}. {remedy}")
            expected += 1
        elif token["id"] is None or token["id"][1] == "-" or not options.empty_nodes:
            continue
        if not token["form"].strip():
            raise ToolkitError(f"{path}:{number}: a word must not be empty. Fill in FORM.")
        fields = data.split(b"\t", column + 1)
        start += sum(len(field) + 1 for field in fields[:column])
        tag = read_tag(path, number, token, options)
        sentence.add(token["form"], tag, (start, start + len(fields[column])), number)
    if not sentence.words:
        raise ToolkitError(f"{path}:{first + 1}: a sentence must have words, but has none.")
    return sentence


def find_block_end(lines: Sequence[str], start: int) -> int:
    """The line after a sentence and the blank lines around it."""
    end, last = start, len(lines) - 1
    for blank in (True, False, True):
        while end < last and (not lines[end].strip()) == blank:
            end += 1
    return end


def parse_word(path: Path, number: int, line: str, fields: tuple[str, ...]) -> Token:
    """A line of CoNLL-U's ten columns, parsed by the package conllu."""
    columns = line.split("\t")
    if len(columns) != 10:
        found = f"but there are {len(columns)}. Correct the line."
        if len(columns) == 1 and len(line.split()) >= 10:
            found = "but these are separated by spaces. Save the file with its tabs."
        raise ToolkitError(f"{path}:{number}: a word must have 10 columns between tabs, {found}")
    if any("  " in column for column in columns[: FEATURES + 1]):
        raise ToolkitError(f"{path}:{number}: a column must not have two spaces in a row.")
    try:
        return parse_line(line, fields)
    except (ParseException, ValueError) as error:
        problem = error if isinstance(error, ParseException) else "a number of thousands of digits"
        raise ToolkitError(f"{path}:{number}: a word is not CoNLL-U: {problem}.") from error


def read_tag(path: Path, line: int, token: Token, options: ConlluOptions) -> str:
    """The tag of a word in the chosen column or feature."""
    tag = options.tag
    if tag not in TAG_COLUMNS:
        return str((token["feats"] or {}).get(tag) or MISSING_TAG)
    if token[tag] in (None, MISSING_TAG, "") and not options.untagged:
        raise ToolkitError(
            f"{path}:{line}: a word must have its {tag.upper()} tag, but {token['form']!r} has _. "
            f"Choose another --tag, or complete the treebank."
        )
    return str(token[tag] or MISSING_TAG)
