"""Passages and their questions as columns: what one worker makes of some of them.

Every item is a question. What belongs to a passage stands with its first question; the others say
how many items back that is, and have nothing in those columns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.data.formats.qa.answer_spans import NO_ANSWER, UNKNOWN, Miss, miss_of, tokens_of
from toolkit.data.formats.qa.passages import Asked, Passage
from toolkit.data.preprocessing.choose_tokenizer import in_one_line
from toolkit.data.tokenizers.token_offsets import Located
from toolkit.data.tokenizers.tokenizer import Codec

Numbers = npt.NDArray[np.int64]
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"
VOCABULARY = "vocabulary"
"""In place of a dtype: that of the vocabulary's ids."""
OF_SQUAD = {
    **{CONTEXT: VOCABULARY, QUESTION: VOCABULARY, TEXT: "<u1", RECORD: "<u1"},
    **dict.fromkeys((BEGINS, ENDS, BACK, SPAN), "<i4"),
}
OF_CHOICES = {
    **{CONTEXT: VOCABULARY, OPTIONS: VOCABULARY, RECORD: "<u1"},
    **dict.fromkeys((BACK, COUNTS, ANSWER), "<i4"),
}


class Chunk(NamedTuple):
    """Some passages as columns."""

    columns: dict[str, tuple[Numbers, Numbers]]
    """Values back to back, and how many each item has."""
    counts: Counter[str]
    misses: list[Miss]


class Column:
    """Items as they come."""

    def __init__(self) -> None:
        self.values: list[Numbers] = []

    def add(self, values: Any) -> None:
        self.values.append(np.asarray(values, np.int64))

    @property
    def packed(self) -> tuple[Numbers, Numbers]:
        lengths = np.array([len(values) for values in self.values], np.int64)
        return np.concatenate([np.zeros(0, np.int64), *self.values]), lengths


def packed(text: str) -> Numbers:
    """As bytes; what is no character, such as half of one, is kept."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.int64)


def pieces(values: Numbers, lengths: Numbers) -> list[Numbers]:
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def squad_chunk(passages: Sequence[Passage], codec: Codec) -> Chunk:
    """Contexts with the place of each token, questions, and the first answer's tokens."""
    located = codec.locate_lines([in_one_line(passage.text) for passage in passages])
    lines = [in_one_line(asked.text) for passage in passages for asked in passage.asked]
    questions = iter(pieces(*codec.encode_lines(lines)))
    columns, misses = {name: Column() for name in OF_SQUAD}, list[Miss]()
    counts = Counter[str]()
    contexts = (pieces(values, located.lengths) for values in located_columns(located))
    for passage, *held in zip(passages, *contexts, strict=True):
        _, begins, ends = held
        own = (*held, packed(passage.text))
        nothing = [np.zeros(0, np.int64)] * len(own)
        for number, asked in enumerate(passage.asked):
            parts = nothing if number else own
            for name, part in zip((CONTEXT, BEGINS, ENDS, TEXT), parts, strict=True):
                columns[name].add(part)
            columns[BACK].add([number])
            columns[QUESTION].add(next(questions))
            columns[SPAN].add(span_of(asked, begins, ends))
            columns[RECORD].add(packed(record_of(asked)))
            missed = missed_of(asked, passage.text, begins, ends)
            misses += [miss for miss in missed if miss is not None]
            counts.update(answers=len(missed), none=asked.none, unlabelled=not asked.known)
    counts.update(passages=len(passages))
    return Chunk({name: column.packed for name, column in columns.items()}, counts, misses)


def located_columns(located: Located) -> tuple[Numbers, Numbers, Numbers]:
    return located.ids, located.begins, located.ends


def span_of(asked: Asked, begins: Numbers, ends: Numbers) -> tuple[int, int]:
    """The first answer's first and last token."""
    if asked.none:
        return NO_ANSWER
    placed = next((answer for answer in asked.answers if answer.begin >= 0), None)
    span = tokens_of(begins, ends, placed.begin, placed.end) if placed else None
    return span or UNKNOWN


def missed_of(asked: Asked, text: str, begins: Numbers, ends: Numbers) -> list[Miss | None]:
    """For each answer whether its tokens give it back."""
    return [
        miss_of(asked.place, answer, text, begins, ends)
        for answer in asked.answers
        if answer.begin >= 0
    ]


def record_of(asked: Asked) -> str:
    """What is needed to judge an answer and to hand it in."""
    texts = [answer.text for answer in asked.answers]
    return json.dumps({"id": asked.name, "answers": texts, "known": asked.known})


def choices_chunk(passages: Sequence[Passage], codec: Codec) -> Chunk:
    """Passages, and all options of a question back to back."""
    contexts = pieces(*codec.encode_lines([in_one_line(p.text) for p in passages]))
    every = [choice for passage in passages for choice in passage.choices]
    lines = [in_one_line(option) for choice in every for option in choice.options]
    options = iter(pieces(*codec.encode_lines(lines)))
    columns = {name: Column() for name in OF_CHOICES}
    counts = Counter[str](passages=len(passages))
    for passage, context in zip(passages, contexts, strict=True):
        for number, choice in enumerate(passage.choices):
            found = [next(options) for _ in choice.options]
            columns[CONTEXT].add([] if number else context)
            columns[BACK].add([number])
            columns[OPTIONS].add(np.concatenate(found))
            columns[COUNTS].add([len(option) for option in found])
            columns[ANSWER].add([-1 if choice.answer is None else choice.answer])
            columns[RECORD].add(packed(json.dumps({"id": choice.name, "group": choice.group})))
            counts.update(options=len(found), unlabelled=choice.answer is None)
    return Chunk({name: column.packed for name, column in columns.items()}, counts, [])


CHUNKS = {"squad": (squad_chunk, OF_SQUAD), "choices": (choices_chunk, OF_CHOICES)}
_codecs: dict[Path, Codec] = {}  # the one in use; in a worker that was not forked, loaded


def use(codec: Codec, folder: Path) -> None:
    """What `chunk_of` reads with from now on, here and in workers that are forked from here."""
    _codecs.clear()
    _codecs[folder] = codec


def chunk_of(passages: Sequence[Passage], kind: str, folder: Path) -> Chunk:
    """With the codec that the folder holds."""
    if folder not in _codecs:
        use(Codec.load(folder), folder)
    return CHUNKS[kind][0](passages, _codecs[folder])
