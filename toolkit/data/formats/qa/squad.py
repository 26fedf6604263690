"""SQuAD's JSON, 1.1 and 2.0 (Rajpurkar et al. 2016, 2018), with answers as spans of tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import IntArray, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.data.formats.format import MAX_QUOTED, MalformedOptions, Problem
from toolkit.data.formats.qa import format as names
from toolkit.data.formats.qa.format import (
    TOKEN_IDS,
    Answer,
    EncodedQuestions,
    Passage,
    QaFormat,
    QuestionSource,
    SpanQuestion,
    check_size,
    encode_bytes,
    encode_lines,
    pack_columns,
    read_json_text,
)
from toolkit.data.raw_items import InputField, describe
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.data.tokenizers.offsets import replace_line_breaks
from toolkit.data.tokenizers.tokenizer import Tokenizer

COLUMNS = {
    **dict.fromkeys((names.CONTEXT, names.QUESTION), TOKEN_IDS),
    **dict.fromkeys((names.TEXT, names.RECORD), "<u1"),
    **dict.fromkeys((names.BEGINS, names.ENDS, names.BACK, names.SPAN), "<i4"),
}
PUBLISHED = {
    split: tuple(f"{name}{version}.json" for version in ("-v1.1", "-v2.0", ""))
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test"))
}
FIELDS = (InputField(("question",)), InputField(("context", "passage", "article")))
"""What a question has in rows."""
UNKNOWN_START = -1
"""Offset of an answer that is not at the offset in the file."""
Span = tuple[int, int]
NO_ANSWER: Span = (-1, -1)
UNKNOWN: Span = (-2, -2)


def read_squad(
    path: Path, max_bytes: int, *, evaluated: bool, answers_required: bool
) -> QuestionSource:
    """All well-formed questions; the others are problems. Questions that are only evaluated
    (validation, test) may have wrong offsets: the official metrics compare texts.
    """
    if isinstance(content := read_json_text(path), Problem):
        raise ToolkitError(f"{content} Copy it again.")
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise ToolkitError(
            f"{path}:1: the file must be an object with a list 'data', as SQuAD's, but is "
            f"{describe(content)}. Give the file as it was published."
        )
    reader = SquadReader(path, max_bytes, evaluated, answers_required)
    read = (reader.read_paragraph(*paragraph) for paragraph in list_paragraphs(path, articles))
    source = reader.finish([passage for passage in read if passage is not None])
    version = str(content.get("version", "")).lower().removeprefix("v")
    return source._replace(none_allowed=source.none_allowed or version.startswith("2"))


def get_fields(value: object, *names: str) -> list[Any]:
    """Values of an object; None for what it lacks, and for other values than objects."""
    return [value.get(name) if isinstance(value, dict) else None for name in names]


def list_paragraphs(path: Path, articles: Sequence[object]) -> Iterator[tuple[str, object]]:
    """Every paragraph with its location in the file, counted from 1."""
    for number, article in enumerate(articles, 1):
        paragraphs, title = get_fields(article, "paragraphs", "title")
        if not isinstance(paragraphs, list):
            raise ToolkitError(
                f"{path}:article {number}: an article must have a list 'paragraphs', but is "
                f"{describe(article)}. Give the file as it was published."
            )
        title = f" {str(title)[:MAX_QUOTED]!r}" if title else ""
        for count, paragraph in enumerate(paragraphs, 1):
            yield f"article {number}{title}, paragraph {count}", paragraph


class SquadReader:
    """Reads paragraphs one by one and collects their problems."""

    def __init__(self, path: Path, max_bytes: int, evaluated: bool, answers_required: bool) -> None:
        self.path, self.max_bytes = path, max_bytes
        self.evaluated, self.answers_required = evaluated, answers_required
        self.problems: list[Problem] = []
        self.moved_answers = 0
        self.has_unanswerable = False
        """Whether a question has no answer, as in SQuAD 2.0."""
        self._locations: dict[str, str] = {}
        """Question id -> its location."""

    def read_paragraph(self, location: str, paragraph: object) -> Passage | None:
        """The passage with its well-formed questions; None without any."""
        context, questions = get_fields(paragraph, "context", "qas")
        if not isinstance(context, str) or not isinstance(questions, list):
            what = f"a paragraph must have 'context' and 'qas', but is {describe(paragraph)}."
            self.add_problem(location, what)
            return None
        check_size(f"{self.path}:{location}", "a context", context, self.max_bytes)
        if questions and not context.strip():
            count = f"{len(questions):,} question{'s' * (len(questions) > 1)}"
            what = f"the context must hold text, but is blank, and has {count}."
            self.add_problem(location, what, kept=self.evaluated, lost=len(questions))
            questions = questions if self.evaluated else []
        kept = list[SpanQuestion]()
        for number, question in enumerate(questions, 1):
            kept += self.read_question(f"{location}, question {number}", question, context)
        return Passage(context, questions=kept) if kept else None

    def finish(self, passages: Sequence[Passage]) -> QuestionSource:
        """The passages that were read, with what was seen in them."""
        note = "answers moved by one or two characters to where their text is"
        notes = [f"{self.moved_answers:,} {note}"] if self.moved_answers else []
        return QuestionSource(self.path, passages, self.problems, notes, self.has_unanswerable)

    def add_problem(self, where: str, what: str, *, kept: bool = False, lost: int = 1) -> None:
        self.problems.append(Problem(self.path, where, what, kept, lost))

    def read_question(self, where: str, question: object, context: str) -> Iterator[SpanQuestion]:
        """The question unless it is malformed."""
        name, text = get_fields(question, "id", "question")
        name = str(name) if isinstance(name, int) else name
        has_both = isinstance(name, str) and name and isinstance(text, str)
        where = f"{where}, id {name}" if has_both else where
        try:
            if not has_both:
                raise ValueError(
                    f"a question must have 'id' and 'question', but is {describe(question)}."
                )
            if (other := self._locations.setdefault(name, where)) != where:
                raise ValueError(f"ids must be unique, but this is also the id of {other}.")
            yield self.parse_question(name, where, question, context)
        except ValueError as error:
            self.add_problem(where, str(error))

    def parse_question(self, name: str, where: str, question: Any, context: str) -> SpanQuestion:
        """Raises ValueError for malformed answers."""
        unanswerable, values = question.get("is_impossible", False), question.get("answers")
        values = [] if values is None else values
        if not isinstance(unanswerable, bool) or not isinstance(values, list):
            raise ValueError("'answers' must be a list and 'is_impossible' true or false.")
        self.has_unanswerable |= unanswerable
        answers = tuple(self.parse_answer(value, context, where) for value in values)
        if unanswerable and values:
            raise ValueError("a question with 'is_impossible' true must not have answers, but has.")
        if self.answers_required and not (unanswerable or values):
            raise ValueError("a question must have an answer, or 'is_impossible' true.")
        text, location = question["question"], f"{self.path}:{where}"
        return SpanQuestion(name, text, answers, unanswerable, location)

    def parse_answer(self, value: object, context: str, where: str) -> Answer:
        """An answer, whose offset may be wrong if it is only evaluated. Offsets that are wrong by
        one or two characters, and spaces around the text, are corrected.
        """
        text, start = get_fields(value, "text", "answer_start")
        if not isinstance(text, str) or not isinstance(start, int):
            raise ValueError(
                f"an answer must have 'text' and 'answer_start', but is {describe(value)}."
            )
        if start >= 0 and context[start : start + len(text)] == text and text.strip():
            return text, start
        stripped = text.strip()
        for moved in (start + shift for shift in (0, -1, 1, -2, 2)):
            if stripped and moved >= 0 and context.startswith(stripped, moved):
                self.moved_answers += 1
                return stripped, moved
        what = describe_mismatch(text, start, context)
        if not self.evaluated:
            raise ValueError(what)
        if context.strip():  # a blank one was already reported
            self.add_problem(where, what, kept=True)
        return text, UNKNOWN_START


def describe_mismatch(text: str, start: int, context: str) -> str:
    """The text at an answer's offset, and the offset of its text."""
    if not text.strip():
        return "an answer must hold text, but is blank."
    found, other = context[max(start, 0) : start + len(text)][:MAX_QUOTED], context.find(text)
    where = f"starts at {other}" if other >= 0 else "is not in the context"
    return (
        f"an answer must match the context at its 'answer_start', but at {start} the "
        f"context has {found!r}, not {text[:MAX_QUOTED]!r}, which {where}."
    )


def token_span(starts: IntArray, ends: IntArray, start: int, end: int) -> Span | None:
    """The first and the last token that cover a character from `start` to before `end`."""
    inside = np.flatnonzero((starts < end) & (ends > start) & (ends > starts))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def find_mismatch(
    where: str, answer: Answer, context: str, starts: IntArray, ends: IntArray
) -> JsonObject | None:
    """None if the tokens' text is the answer without white space at its ends."""
    (text, first), found, why = answer, "", "no token covers it"
    if span := token_span(starts, ends, first, first + len(text)):
        start, end = names.character_span(starts, ends, *span)
        if (found := context[start:end]) == text.strip():
            return None
        starts_inside = start < first + len(text) - len(text.lstrip())
        ends_inside = end > first + len(text.rstrip())
        edges = " and ".join(["begins"] * starts_inside + ["ends"] * ends_inside)
        why = f"since it {edges} inside a token" if edges else "cut short"
    return {"where": where, "wanted": text, "found": found, "why": why}


def encode_squad(passages: Sequence[Passage], tokenizer: Tokenizer) -> EncodedQuestions:
    """Passages with the offsets of their tokens, questions, and the span of the first answer."""
    offsets = tokenizer.encode_with_offsets([replace_line_breaks(p.text) for p in passages])
    arrays = (offsets.ids, offsets.starts, offsets.ends)
    contexts = zip(*(split_rows(values, offsets.lengths) for values in arrays), strict=True)
    texts = (question.text for passage in passages for question in passage.questions)
    question_ids = iter(encode_lines(tokenizer, texts))
    items, counts, mismatches = list[dict[str, npt.ArrayLike]](), Counter[str](), list[JsonObject]()
    for passage, (ids, starts, ends) in zip(passages, contexts, strict=True):
        text = encode_bytes(passage.text)
        context = {names.CONTEXT: ids, names.BEGINS: starts, names.ENDS: ends, names.TEXT: text}
        for number, question in enumerate(passage.questions):
            located = [answer for answer in question.answers if answer[1] >= 0]
            where, answers = question.location, [text for text, _ in question.answers]
            found = (find_mismatch(where, it, passage.text, starts, ends) for it in located)
            spans = (token_span(starts, ends, at, at + len(it)) for it, at in located[:1])
            span = NO_ANSWER if question.unanswerable else next(spans, None) or UNKNOWN
            record = {"id": question.name, "answers": answers, "known": question.labeled}
            item: dict[str, npt.ArrayLike] = {
                names.BACK: [number],
                names.QUESTION: next(question_ids),
                names.SPAN: span,
                names.RECORD: encode_bytes(json.dumps(record)),
            }
            items.append(item if number else {**item, **context})
            mismatches += filter(None, found)
            counts.update(
                answers=len(located), none=question.unanswerable, unlabeled=not question.labeled
            )
    return pack_columns(COLUMNS, items), counts, mismatches


def encode_span_questions(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> MemoryFolder:
    """A folder of pairs of a question and its passage; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(pairs, lambda pair: pair[1]):
        asked = [SpanQuestion("", question, (), False, "") for question, _ in group]
        passages.append(Passage(context, questions=asked))
    return MemoryFolder(names.SQUAD, tokenizer, encode_squad(passages, tokenizer)[0])


@register_format("squad", MalformedOptions())
class SquadFormat(QaFormat):
    """SQuAD's JSON, 1.1 or 2.0."""

    kind, types, encode_passages = names.SQUAD, COLUMNS, staticmethod(encode_squad)
    published = PUBLISHED

    def read_source(self, split: str, path: Path) -> QuestionSource:
        limit = self.config.max_line_bytes
        return read_squad(path, limit, evaluated=split != "train", answers_required=split != "test")

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        answers, recovered = entry["answers"], entry["recovered"]
        share = f"{recovered:,} of {answers:,} ({recovered / answers:.2%})" if answers else "none"
        return {"without answer": entry["none"], "answers found": share}
