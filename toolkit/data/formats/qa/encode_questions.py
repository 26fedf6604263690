"""Encodes passages and their questions as columns: the task of a worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import IntArray
from toolkit.data.formats.qa import columns as names
from toolkit.data.formats.qa.answer_spans import (
    NO_ANSWER,
    UNKNOWN,
    AnswerMismatch,
    Span,
    find_mismatch,
    token_span,
)
from toolkit.data.formats.qa.passages import Passage, SpanQuestion
from toolkit.data.preprocessing.workers import load_tokenizer
from toolkit.data.ragged import split_rows
from toolkit.data.tokenizers.normalize import replace_line_breaks
from toolkit.data.tokenizers.tokenizer import Tokenizer


class QuestionChunk(NamedTuple):
    """Encoded passages."""

    columns: dict[str, tuple[IntArray, IntArray]]
    """Column -> the values of all items back to back, and the number per item."""
    counts: Counter[str]
    mismatches: list[AnswerMismatch]


class ItemColumns:
    """Columns of items that are added one by one."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._items: dict[str, list[IntArray]] = {name: [] for name in columns}

    def add(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Add an item; columns without values are empty."""
        for name, items in self._items.items():
            items.append(np.asarray(values.get(name, ()), np.int64))

    def pack(self) -> dict[str, tuple[IntArray, IntArray]]:
        """Column -> the values of all items back to back, and the number per item."""
        return {
            name: (
                np.concatenate([np.zeros(0, np.int64), *items]),
                np.array([len(item) for item in items], np.int64),
            )
            for name, items in self._items.items()
        }


def encode_bytes(text: str) -> IntArray:
    """The text's bytes in UTF-8, which also encode surrogates."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.int64)


def encode_lines(tokenizer: Tokenizer, texts: Iterable[str]) -> list[IntArray]:
    """The ids of each text, whose line breaks become spaces."""
    return split_rows(*tokenizer.encode_lines([replace_line_breaks(text) for text in texts]))


def encode_squad(passages: Sequence[Passage], tokenizer: Tokenizer) -> QuestionChunk:
    """Passages with the offsets of their tokens, questions, and the span of the first answer."""
    offsets = tokenizer.encode_with_offsets([replace_line_breaks(p.text) for p in passages])
    arrays = (offsets.ids, offsets.starts, offsets.ends)
    contexts = zip(*(split_rows(values, offsets.lengths) for values in arrays), strict=True)
    texts = (question.text for passage in passages for question in passage.questions)
    question_ids = iter(encode_lines(tokenizer, texts))
    columns, mismatches = ItemColumns(names.SQUAD_COLUMNS), list[AnswerMismatch]()
    counts = Counter[str](passages=len(passages))
    for passage, (ids, starts, ends) in zip(passages, contexts, strict=True):
        text = encode_bytes(passage.text)
        context = {names.CONTEXT: ids, names.BEGINS: starts, names.ENDS: ends, names.TEXT: text}
        for number, question in enumerate(passage.questions):
            item: dict[str, npt.ArrayLike] = {
                names.BACK: [number],
                names.QUESTION: next(question_ids),
                names.SPAN: first_answer_span(question, starts, ends),
                names.RECORD: encode_bytes(to_record(question)),
            }
            columns.add(item if number else {**item, **context})
            located = [answer for answer in question.answers if answer.start >= 0]
            for answer in located:
                where = question.location
                if mismatch := find_mismatch(where, answer, passage.text, starts, ends):
                    mismatches.append(mismatch)
            counts.update(
                answers=len(located), none=question.unanswerable, unlabeled=not question.labeled
            )
    return QuestionChunk(columns.pack(), counts, mismatches)


def first_answer_span(question: SpanQuestion, starts: IntArray, ends: IntArray) -> Span:
    """The first and the last token of the first answer whose offset is known."""
    if question.unanswerable:
        return NO_ANSWER
    located = next((answer for answer in question.answers if answer.start >= 0), None)
    span = token_span(starts, ends, located.start, located.end) if located else None
    return span or UNKNOWN


def to_record(question: SpanQuestion) -> str:
    """JSON of what evaluation and submissions need."""
    texts = [answer.text for answer in question.answers]
    return json.dumps({"id": question.name, "answers": texts, "known": question.labeled})


def encode_choices(passages: Sequence[Passage], tokenizer: Tokenizer) -> QuestionChunk:
    """Passages, and all options of a question back to back."""
    contexts = encode_lines(tokenizer, (passage.text for passage in passages))
    questions = (question for passage in passages for question in passage.choices)
    texts = (option for question in questions for option in question.options)
    option_ids = iter(encode_lines(tokenizer, texts))
    columns = ItemColumns(names.CHOICE_COLUMNS)
    counts = Counter[str](passages=len(passages))
    for passage, context in zip(passages, contexts, strict=True):
        for number, question in enumerate(passage.choices):
            options = [next(option_ids) for _ in question.options]
            record = json.dumps({"id": question.name, "group": question.group})
            item: dict[str, npt.ArrayLike] = {
                names.BACK: [number],
                names.OPTIONS: np.concatenate(options),
                names.COUNTS: [len(option) for option in options],
                names.ANSWER: [-1 if question.answer is None else question.answer],
                names.RECORD: encode_bytes(record),
            }
            columns.add(item if number else {**item, names.CONTEXT: context})
            counts.update(options=len(options), unlabeled=question.answer is None)
    return QuestionChunk(columns.pack(), counts, [])


ENCODE = {names.SQUAD: encode_squad, names.MULTIPLE_CHOICE: encode_choices}


def encode_passages(passages: Sequence[Passage], kind: str, folder: Path) -> QuestionChunk:
    """The passages' columns, by the tokenizer of the folder."""
    return ENCODE[kind](passages, load_tokenizer(folder))
