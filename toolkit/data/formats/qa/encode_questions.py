"""Encodes passages and their questions: the work of one worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.data.formats.qa.answer_spans import (
    NO_ANSWER,
    UNKNOWN,
    AnswerMismatch,
    find_mismatch,
    token_span,
)
from toolkit.data.formats.qa.columns import (
    ANSWER,
    BACK,
    BEGINS,
    CHOICE_COLUMNS,
    CONTEXT,
    COUNTS,
    ENDS,
    MULTIPLE_CHOICE,
    OPTIONS,
    QUESTION,
    RECORD,
    SPAN,
    SQUAD,
    SQUAD_COLUMNS,
    TEXT,
)
from toolkit.data.formats.qa.passages import Passage, SpanQuestion
from toolkit.data.preprocessing.choose_tokenizer import replace_line_breaks
from toolkit.data.preprocessing.workers import load_tokenizer
from toolkit.data.tokenizers.token_offsets import TokenOffsets
from toolkit.data.tokenizers.tokenizer import Tokenizer


class QuestionChunk(NamedTuple):
    """Some passages as columns."""

    columns: dict[str, tuple[IntArray, IntArray]]
    """Values back to back, and how many each item has."""
    counts: Counter[str]
    misses: list[AnswerMismatch]


class ColumnBuilder:
    """Items as they come."""

    def __init__(self) -> None:
        self.values: list[IntArray] = []

    def add(self, values: Any) -> None:
        self.values.append(np.asarray(values, np.int64))

    @property
    def packed(self) -> tuple[IntArray, IntArray]:
        lengths = np.array([len(values) for values in self.values], np.int64)
        return np.concatenate([np.zeros(0, np.int64), *self.values]), lengths


def encode_bytes(text: str) -> IntArray:
    """As bytes; what is no character, such as half of one, is kept."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.int64)


def split_rows(values: IntArray, lengths: IntArray) -> list[IntArray]:
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def squad_chunk(passages: Sequence[Passage], tokenizer: Tokenizer) -> QuestionChunk:
    """Contexts with the place of each token, questions, and the first answer's tokens."""
    located = tokenizer.encode_with_offsets(
        [replace_line_breaks(passage.text) for passage in passages]
    )
    lines = [replace_line_breaks(asked.text) for passage in passages for asked in passage.questions]
    questions = iter(split_rows(*tokenizer.encode_lines(lines)))
    columns, misses = {name: ColumnBuilder() for name in SQUAD_COLUMNS}, list[AnswerMismatch]()
    counts = Counter[str]()
    contexts = (split_rows(values, located.lengths) for values in located_columns(located))
    for passage, *held in zip(passages, *contexts, strict=True):
        _, begins, ends = held
        own = (*held, encode_bytes(passage.text))
        nothing = [np.zeros(0, np.int64)] * len(own)
        for number, asked in enumerate(passage.questions):
            parts = nothing if number else own
            for name, part in zip((CONTEXT, BEGINS, ENDS, TEXT), parts, strict=True):
                columns[name].add(part)
            columns[BACK].add([number])
            columns[QUESTION].add(next(questions))
            columns[SPAN].add(first_answer_span(asked, begins, ends))
            columns[RECORD].add(encode_bytes(to_record(asked)))
            missed = find_mismatches(asked, passage.text, begins, ends)
            misses += [miss for miss in missed if miss is not None]
            counts.update(answers=len(missed), none=asked.unanswerable, unlabeled=not asked.labeled)
    counts.update(passages=len(passages))
    return QuestionChunk({name: column.packed for name, column in columns.items()}, counts, misses)


def located_columns(located: TokenOffsets) -> tuple[IntArray, IntArray, IntArray]:
    return located.ids, located.starts, located.ends


def first_answer_span(asked: SpanQuestion, begins: IntArray, ends: IntArray) -> tuple[int, int]:
    """The first answer's first and last token."""
    if asked.unanswerable:
        return NO_ANSWER
    placed = next((answer for answer in asked.answers if answer.start >= 0), None)
    span = token_span(begins, ends, placed.start, placed.end) if placed else None
    return span or UNKNOWN


def find_mismatches(
    asked: SpanQuestion, text: str, begins: IntArray, ends: IntArray
) -> list[AnswerMismatch | None]:
    """For each answer whether its tokens give it back."""
    return [
        find_mismatch(asked.location, answer, text, begins, ends)
        for answer in asked.answers
        if answer.start >= 0
    ]


def to_record(asked: SpanQuestion) -> str:
    """What is needed to judge an answer and to hand it in."""
    texts = [answer.text for answer in asked.answers]
    return json.dumps({"id": asked.name, "answers": texts, "known": asked.labeled})


def choices_chunk(passages: Sequence[Passage], tokenizer: Tokenizer) -> QuestionChunk:
    """Passages, and all options of a question back to back."""
    contexts = split_rows(*tokenizer.encode_lines([replace_line_breaks(p.text) for p in passages]))
    every = [choice for passage in passages for choice in passage.choices]
    lines = [replace_line_breaks(option) for choice in every for option in choice.options]
    options = iter(split_rows(*tokenizer.encode_lines(lines)))
    columns = {name: ColumnBuilder() for name in CHOICE_COLUMNS}
    counts = Counter[str](passages=len(passages))
    for passage, context in zip(passages, contexts, strict=True):
        for number, choice in enumerate(passage.choices):
            found = [next(options) for _ in choice.options]
            columns[CONTEXT].add([] if number else context)
            columns[BACK].add([number])
            columns[OPTIONS].add(np.concatenate(found))
            columns[COUNTS].add([len(option) for option in found])
            columns[ANSWER].add([-1 if choice.answer is None else choice.answer])
            columns[RECORD].add(
                encode_bytes(json.dumps({"id": choice.name, "group": choice.group}))
            )
            counts.update(options=len(found), unlabeled=choice.answer is None)
    return QuestionChunk({name: column.packed for name, column in columns.items()}, counts, [])


ENCODE = {SQUAD: squad_chunk, MULTIPLE_CHOICE: choices_chunk}


def build_chunk(passages: Sequence[Passage], kind: str, folder: Path) -> QuestionChunk:
    """The passages' columns, by the tokenizer of the folder."""
    return ENCODE[kind](passages, load_tokenizer(folder))
