"""Encodes passages and their questions as columns: the task of a worker.

Long passages are read in sliding windows (Devlin et al. 2019, code); answers are converted between
characters and the tokens that cover them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange, split_rows
from toolkit.data.formats.qa import split as names
from toolkit.data.formats.qa.split import (
    MULTIPLE_CHOICE,
    SQUAD,
    ChoiceQuestion,
    GoldAnswer,
    Passage,
    SpanQuestion,
)
from toolkit.data.preprocessing.workers import load_tokenizer
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.tokenizers.normalize import replace_line_breaks
from toolkit.data.tokenizers.tokenizer import Tokenizer


class Windows(NamedTuple):
    """Parts of passages, question by question."""

    question_ids: IntArray
    """The question of each window."""
    starts: IntArray
    """Index of the window's first token in the passage."""
    lengths: IntArray
    """Number of the passage's tokens in each window."""
    first_windows: IntArray
    """The first window of each question, and at the end the number of windows."""


def split_into_windows(passage_lengths: IntArray, max_lengths: IntArray, stride: int) -> Windows:
    """Windows that cover each question's passage, `stride` tokens apart.

    `max_lengths` is the maximum length of each question's windows. If it is less than the stride,
    the windows follow each other without a gap.
    """
    step = np.minimum(stride, max_lengths)
    counts = 1 + -(-np.maximum(passage_lengths - max_lengths, 0) // step)
    questions = np.repeat(np.arange(len(passage_lengths)), counts)
    starts = ragged_arange(0, counts) * step[questions]
    lengths = np.minimum(max_lengths[questions], passage_lengths[questions] - starts)
    return Windows(questions, starts, lengths, np.concatenate([[0], np.cumsum(counts)]))


def max_context_tokens(windows: Windows, window: int) -> BoolArray:
    """For each token of a window, whether its context is larger than in all other windows.

    The context of a token is the smaller one of the numbers of tokens before and after it in the
    window, plus a hundredth of the window's length. Among equal windows the first one counts.
    """
    question = windows.question_ids[window]
    others = slice(windows.first_windows[question], windows.first_windows[question + 1])
    starts, lengths = windows.starts[others, None], windows.lengths[others, None]
    tokens = windows.starts[window] + np.arange(windows.lengths[window])
    before, after = tokens - starts, starts + lengths - 1 - tokens
    context = np.minimum(before, after) + 0.01 * lengths
    context = np.where((before < 0) | (after < 0), -1.0, context)
    is_max: BoolArray = context.argmax(0) == window - windows.first_windows[question]
    return is_max


Span = tuple[int, int]
NO_ANSWER: Span = (-1, -1)
UNKNOWN: Span = (-2, -2)


class AnswerMismatch(NamedTuple):
    """An answer that differs from the text of its tokens."""

    where: str
    wanted: str
    found: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.wanted!r} is read as {self.found!r}, {self.why}"


def token_span(starts: IntArray, ends: IntArray, start: int, end: int) -> Span | None:
    """The first and the last token that cover a character from `start` to before `end`."""
    inside = np.flatnonzero((starts < end) & (ends > start) & (ends > starts))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def character_span(starts: IntArray, ends: IntArray, first: int, last: int) -> tuple[int, int]:
    """The characters from the first to the last token, of which the last may cover none."""
    return int(starts[first]), max(int(starts[first]), int(ends[last]))


def find_mismatch(
    where: str, answer: GoldAnswer, text: str, starts: IntArray, ends: IntArray
) -> AnswerMismatch | None:
    """None if the tokens' text is the answer without white space at its ends."""
    span = token_span(starts, ends, answer.start, answer.end)
    if span is None:
        return AnswerMismatch(where, answer.text, "", "no token covers it")
    start, end = character_span(starts, ends, *span)
    if text[start:end] == answer.text.strip():
        return None
    starts_inside = start < answer.start + len(answer.text) - len(answer.text.lstrip())
    ends_inside = end > answer.start + len(answer.text.rstrip())
    edges = " and ".join(["begins"] * starts_inside + ["ends"] * ends_inside)
    why = f"since it {edges} inside a token" if edges else "cut short"
    return AnswerMismatch(where, answer.text, text[start:end], why)


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


def encode_span_questions(
    tokenizer: Tokenizer, questions: Sequence[tuple[str, str]]
) -> MemoryFolder:
    """A folder of pairs of a question and its passage; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(questions, lambda pair: pair[1]):
        asked = [SpanQuestion("", question, (), False, "") for question, _ in group]
        passages.append(Passage(context, questions=asked))
    return MemoryFolder(SQUAD, tokenizer, ENCODE[SQUAD](passages, tokenizer).columns)


def encode_choice_questions(
    tokenizer: Tokenizer, questions: Sequence[tuple[str, tuple[str, ...]]]
) -> MemoryFolder:
    """A folder of pairs of a passage and the options; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(questions, lambda pair: pair[0]):
        choices = [ChoiceQuestion("", options, None, "") for _, options in group]
        passages.append(Passage(context, choices=choices))
    encoded = ENCODE[MULTIPLE_CHOICE](passages, tokenizer)
    return MemoryFolder(MULTIPLE_CHOICE, tokenizer, encoded.columns)
