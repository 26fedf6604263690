"""The Penn Treebank's words and tags (Marcus et al. 1993): bracketed .mrg files and tagged .pos."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toolkit.data.formats.tagging.sentence import Sentence, refuse, with_rest
from toolkit.data.text_files import read_source

TRACE = "-NONE-"
BRACKETS = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"},
    **{"-LCB-": "{", "-RCB-": "}"},
}
_TOKEN = re.compile(rb"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|[()]|[^\s()]+")
_TAGGED = re.compile(rb"={4,}|[\[\]](?=\s|$)|\S+")
_CLOSING = ("''", ")", "-RRB-")


def read_penn(path: Path) -> Iterator[Sentence]:
    """A file of either kind, told by its ending."""
    name = path.name.removesuffix(".gz").removesuffix(".xz")
    data, _ = read_source(path)
    found = slashed(path, data) if name.endswith(".pos") else bracketed(path, data)
    return with_rest(found, data)


def plain(word: str) -> str:
    r"""-LRB- is (, \/ is /, \* is *."""
    return BRACKETS.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def first_of(tags: str) -> str:
    """The first of several tags that the annotators could not decide between, as in JJ|NN."""
    return tags.split("|")[0] or tags


def bracketed(path: Path, data: bytes) -> Iterator[tuple[Sentence, int, int]]:
    """The leaves of each tree with their parts of speech, traces left out."""
    depth, begin = 0, 0
    found = Sentence([], [], [], [], b"")
    line, counted = 1, 0
    for token in _TOKEN.finditer(data):
        line += data.count(b"\n", counted, token.start())
        counted = token.start()
        if depth == 0 and token[0] != b"(":
            refuse(path, line, f"a tree must begin with (, but here is {shown(token[0])}.")
        if depth == 0 or (token[0] == b"(" and data[token.start() - 1 : token.start()] == b"\n"):
            refuse_open(path, data, begin, depth)
            begin, found = token.start(), Sentence([], [], [], [], b"")
        if token[1] is None:
            depth += {b"(": 1, b")": -1}.get(token[0], 0)
        elif token[1].decode() != TRACE:
            found.words.append(plain(token[2].decode()))
            found.tags.append(first_of(token[1].decode()))
            found.fields.append((token.start(1) - begin, token.end(1) - begin))
            found.lines.append(line)
        if depth == 0 and found.words:
            yield found, begin, token.end()
    refuse_open(path, data, begin, depth)


def refuse_open(path: Path, data: bytes, begin: int, depth: int) -> None:
    if depth:
        line = data.count(b"\n", 0, begin) + 1
        refuse(path, line, f"brackets must be balanced, but {depth} of this tree are not closed.")


def slashed(path: Path, data: bytes) -> Iterator[tuple[Sentence, int, int]]:
    """Words with their tags behind a slash; a sentence ends behind the tag `.` and at ====."""
    found, begin, end, ended, inside, opened = Sentence([], [], [], [], b""), 0, 0, False, False, 1
    line, counted = 1, 0
    for token in _TAGGED.finditer(data):
        line += data.count(b"\n", counted, token.start())
        counted = token.start()
        text = token[0].decode()
        if text in "[]":
            if inside == (text == "["):
                refuse(path, line, f"brackets must be balanced, but here is {text} too many.")
            inside, opened = text == "[", line
            continue
        rule = text.startswith("====")
        word, slash, tag = ("", "/", "") if rule else text.rpartition("/")
        if not (rule or (word and slash and tag)):
            refuse(path, line, f"a word must have its tag behind a slash, but here is {text!r}.")
        if found.words and (rule or (ended and tag not in _CLOSING)):
            yield found, begin, end
            found, ended = Sentence([], [], [], [], b""), False
        if rule or tag == TRACE:
            continue
        begin = begin if found.words else token.start()
        end, place = token.end(), token.start() - begin + len(word.encode()) + 1
        found.words.append(plain(word))
        found.tags.append(first_of(tag))
        found.fields.append((place, end - begin))
        found.lines.append(line)
        ended = ended or (tag == "." and not inside)
    if inside:
        refuse(path, opened, "brackets must be balanced, but this [ is not closed.")
    if found.words:
        yield found, begin, end


def shown(token: bytes) -> str:
    return repr(token[:40].decode())
