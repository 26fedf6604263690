"""The Penn Treebank's words and tags (Marcus et al. 1993): bracketed .mrg files and tagged .pos."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.data.formats.tagging.sentence import TaggedSentence, attach_gaps
from toolkit.data.text_files import raise_at_line, read_strict_text

TRACE = "-NONE-"
BRACKETS = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"},
    **{"-LCB-": "{", "-RCB-": "}"},
}
_TOKEN = re.compile(rb"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|[()]|[^\s()]+")
_TAGGED = re.compile(rb"={4,}|[\[\]](?=\s|$)|\S+")
_CLOSING = ("''", ")", "-RRB-")


def read_penn_treebank(path: Path) -> Iterator[TaggedSentence]:
    """A file of either kind, told by its ending."""
    name = path.name.removesuffix(".gz").removesuffix(".xz")
    data, _ = read_strict_text(path)
    found = parse_slashed(path, data) if name.endswith(".pos") else parse_bracketed(path, data)
    return attach_gaps(found, data)


def unescape(word: str) -> str:
    r"""-LRB- is (, \/ is /, \* is *."""
    return BRACKETS.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def first_tag(tags: str) -> str:
    """The first of several tags that the annotators could not decide between, as in JJ|NN."""
    return tags.split("|")[0] or tags


def parse_bracketed(path: Path, data: bytes) -> Iterator[tuple[TaggedSentence, int, int]]:
    """The leaves of each tree with their parts of speech, traces left out."""
    depth, begin = 0, 0
    found = TaggedSentence([], [], [], [], b"")
    line, counted = 1, 0
    for token in _TOKEN.finditer(data):
        line += data.count(b"\n", counted, token.start())
        counted = token.start()
        if depth == 0 and token[0] != b"(":
            raise_at_line(path, line, f"a tree must begin with (, but here is {quote(token[0])}.")
        if depth == 0 or (token[0] == b"(" and data[token.start() - 1 : token.start()] == b"\n"):
            check_balanced(path, data, begin, depth)
            begin, found = token.start(), TaggedSentence([], [], [], [], b"")
        if token[1] is None:
            depth += {b"(": 1, b")": -1}.get(token[0], 0)
        elif token[1].decode() != TRACE:
            found.words.append(unescape(token[2].decode()))
            found.tags.append(first_tag(token[1].decode()))
            found.tag_spans.append((token.start(1) - begin, token.end(1) - begin))
            found.lines.append(line)
        if depth == 0 and found.words:
            yield found, begin, token.end()
    check_balanced(path, data, begin, depth)


def check_balanced(path: Path, data: bytes, begin: int, depth: int) -> None:
    if depth:
        line = data.count(b"\n", 0, begin) + 1
        raise_at_line(
            path, line, f"brackets must be balanced, but {depth} of this tree are not closed."
        )


def parse_slashed(path: Path, data: bytes) -> Iterator[tuple[TaggedSentence, int, int]]:
    """Words with a slash and their tags; a sentence ends after the tag `.` and at ====."""
    found, begin, end, ended, inside, opened = (
        TaggedSentence([], [], [], [], b""),
        0,
        0,
        False,
        False,
        1,
    )
    line, counted = 1, 0
    for token in _TAGGED.finditer(data):
        line += data.count(b"\n", counted, token.start())
        counted = token.start()
        text = token[0].decode()
        if text in "[]":
            if inside == (text == "["):
                raise_at_line(
                    path, line, f"brackets must be balanced, but here is {text} too many."
                )
            inside, opened = text == "[", line
            continue
        rule = text.startswith("====")
        word, slash, tag = ("", "/", "") if rule else text.rpartition("/")
        if not (rule or (word and slash and tag)):
            raise_at_line(path, line, f"expected word/TAG, found {text!r}.")
        if found.words and (rule or (ended and tag not in _CLOSING)):
            yield found, begin, end
            found, ended = TaggedSentence([], [], [], [], b""), False
        if rule or tag == TRACE:
            continue
        begin = begin if found.words else token.start()
        end, place = token.end(), token.start() - begin + len(word.encode()) + 1
        found.words.append(unescape(word))
        found.tags.append(first_tag(tag))
        found.tag_spans.append((place, end - begin))
        found.lines.append(line)
        ended = ended or (tag == "." and not inside)
    if inside:
        raise_at_line(path, opened, "brackets must be balanced, but this [ is not closed.")
    if found.words:
        yield found, begin, end


def quote(token: bytes) -> str:
    return repr(token[:40].decode())
