"""SQuAD's JSON, 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): articles, paragraphs, questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.data.formats.qa.split import (
    GoldAnswer,
    Passage,
    QuestionSource,
    SpanQuestion,
    read_json_text,
    utf8_size,
)
from toolkit.data.preprocessing.report import MAX_QUOTED, Problem

UNKNOWN_START = -1
"""Offset of an answer that is not at the offset in the file."""


class ParagraphLocation(NamedTuple):
    """Location of a paragraph in the file, counted from 1."""

    article: int
    title: str
    paragraph: int

    def __str__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        return f"article {self.article}{title}, paragraph {self.paragraph}"


def read_squad(
    path: Path, max_bytes: int, *, evaluated: bool, answers_required: bool
) -> QuestionSource:
    """All well-formed questions; the others are problems.

    If the questions are only evaluated (validation, test), those with wrong answer offsets stay,
    because the official metrics compare texts.
    """
    content = read_json_text(path)
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(articles, list):
        raise ToolkitError(
            f"{path}:1: the file must be an object with a list 'data', as SQuAD's, but is "
            f"{describe_value(content)}. Give the file as it was published."
        )
    reader = SquadReader(path, max_bytes, evaluated, answers_required)
    paragraphs = list_paragraphs(path, articles)
    passages = [
        passage
        for location, paragraph in paragraphs
        if (passage := reader.read_paragraph(location, paragraph)) is not None
    ]
    if not passages and not reader.problems:
        raise ToolkitError(f"{path}:1: the file must hold questions, but has none. Give another.")
    version = str(content.get("version", "")).lower().removeprefix("v")
    none_allowed = version.startswith("2") or reader.has_unanswerable
    empty = reader.paragraphs_without_questions
    notes = [f"{empty:,} paragraphs without questions"] if empty else []
    return QuestionSource(path, passages, reader.problems, notes, none_allowed)


def describe_value(value: object) -> str:
    """The type of a JSON value, with the keys of an object, for messages."""
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:5])) or 'nothing'}"
    return f"of type {type(value).__name__}"


def get_fields(value: object, *names: str) -> list[object]:
    """Values of an object; None for what it lacks, and for other values than objects."""
    return [value.get(name) if isinstance(value, dict) else None for name in names]


def list_paragraphs(
    path: Path, articles: Sequence[object]
) -> Iterator[tuple[ParagraphLocation, object]]:
    """Every paragraph with its location in the file."""
    for number, article in enumerate(articles, 1):
        paragraphs, title = get_fields(article, "paragraphs", "title")
        if not isinstance(paragraphs, list):
            raise ToolkitError(
                f"{path}:article {number}: an article must have a list 'paragraphs', but is "
                f"{describe_value(article)}. Give the file as it was published."
            )
        title = str(title or "")[:MAX_QUOTED]
        for count, paragraph in enumerate(paragraphs, 1):
            yield ParagraphLocation(number, title, count), paragraph


class SquadReader:
    """Reads paragraphs one by one and collects their problems."""

    def __init__(self, path: Path, max_bytes: int, evaluated: bool, answers_required: bool) -> None:
        self.path, self.max_bytes = path, max_bytes
        self.evaluated, self.answers_required = evaluated, answers_required
        self.problems: list[Problem] = []
        self.paragraphs_without_questions = 0
        self.has_unanswerable = False
        """Whether a question has no answer, as in SQuAD 2.0."""
        self._locations: dict[str, str] = {}
        """Question id -> its location."""

    def read_paragraph(self, location: ParagraphLocation, paragraph: object) -> Passage | None:
        """The passage with its well-formed questions; None without any."""
        context, questions = get_fields(paragraph, "context", "qas")
        if not isinstance(context, str) or not isinstance(questions, list):
            what = f"a paragraph must have 'context' and 'qas', but is {describe_value(paragraph)}."
            self.add_problem(location, what)
            return None
        if (size := utf8_size(context)) > self.max_bytes:
            raise ToolkitError(
                f"{self.path}:{location}: a context must have at most {self.max_bytes} bytes, but "
                f"has {size}. Shorten it, or raise --max-line-bytes."
            )
        self.paragraphs_without_questions += not questions
        if questions and not context.strip():
            count = f"{len(questions):,} question{'s' * (len(questions) > 1)}"
            what = f"the context must hold text, but is blank, and has {count}."
            self.add_problem(location, what, kept=self.evaluated, lost=len(questions))
            questions = questions if self.evaluated else []
        read = [
            self.read_question(f"{location}, question {number}", question, context)
            for number, question in enumerate(questions, 1)
        ]
        kept = [question for question in read if question is not None]
        return Passage(context, questions=kept) if kept else None

    def add_problem(
        self, where: ParagraphLocation | str, what: str, *, kept: bool = False, lost: int = 1
    ) -> None:
        self.problems.append(Problem(self.path, str(where), what, kept, lost))

    def read_question(self, where: str, question: object, context: str) -> SpanQuestion | None:
        name = get_fields(question, "id")[0]
        name = str(name) if isinstance(name, int) else name
        if not (
            isinstance(question, dict)
            and isinstance(name, str)
            and name
            and isinstance(question.get("question"), str)
        ):
            what = f"a question must have 'id' and 'question', but is {describe_value(question)}."
            self.add_problem(where, what)
            return None
        where = f"{where}, id {name}"
        if name in self._locations:
            self.add_problem(
                where, f"ids must be unique, but this is also the id of {self._locations[name]}."
            )
            return None
        self._locations[name] = where
        try:
            return self.parse_question(name, where, question, context)
        except ValueError as error:
            self.add_problem(where, str(error))
            return None

    def parse_question(
        self, name: str, where: str, question: JsonObject, context: str
    ) -> SpanQuestion:
        """Raises ValueError for malformed answers."""
        unanswerable, values = question.get("is_impossible", False), question.get("answers")
        values = [] if values is None else values
        if not isinstance(unanswerable, bool) or not isinstance(values, list):
            raise ValueError("'answers' must be a list and 'is_impossible' true or false.")
        self.has_unanswerable |= unanswerable
        answers = [self.parse_answer(value, context, where) for value in values]
        if unanswerable and values:
            raise ValueError("a question with 'is_impossible' true must not have answers, but has.")
        if self.answers_required and not (unanswerable or values):
            raise ValueError("a question must have an answer, or 'is_impossible' true.")
        location = f"{self.path}:{where}"
        return SpanQuestion(name, question["question"], tuple(answers), unanswerable, location)

    def parse_answer(self, value: object, context: str, where: str) -> GoldAnswer:
        """An answer that is only evaluated may have a wrong offset."""
        text, start = get_fields(value, "text", "answer_start")
        if not isinstance(text, str) or not isinstance(start, int):
            raise ValueError(
                f"an answer must have 'text' and 'answer_start', but is {describe_value(value)}."
            )
        answer = GoldAnswer(text, start)
        if start >= 0 and context[start : answer.end] == text and text.strip():
            return answer
        what = describe_mismatch(answer, context)
        if not self.evaluated:
            raise ValueError(what)
        if context.strip():  # a blank one was already reported
            self.add_problem(where, what, kept=True)
        return GoldAnswer(text, UNKNOWN_START)


def describe_mismatch(answer: GoldAnswer, context: str) -> str:
    """The text at the answer's offset, and the offset of its text."""
    if not answer.text.strip():
        return "an answer must hold text, but is blank."
    found = context[max(answer.start, 0) : answer.end][:MAX_QUOTED]
    start = context.find(answer.text)
    where = f"starts at {start}" if start >= 0 else "is not in the context"
    return (
        f"an answer must match the context at its 'answer_start', but at {answer.start} the "
        f"context has {found!r}, not {answer.text[:MAX_QUOTED]!r}, which {where}."
    )
