"""SQuAD's JSON, 1.1 and 2.0 (Rajpurkar et al. 2016, 2018): articles, paragraphs, questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.passages import (
    GoldAnswer,
    Passage,
    QuestionProblem,
    QuestionSource,
    SpanQuestion,
    read_json_text,
    utf8_size,
)

SHOWN = 40
"""Characters of a wrong text that an error shows."""


class ParagraphLocation(NamedTuple):
    """Where in the file something stands, counted from 1."""

    article: int
    title: str
    paragraph: int

    def __str__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        return f"article {self.article}{title}, paragraph {self.paragraph}"


def read_squad(
    path: Path, max_bytes: int, *, evaluated: bool, answers_required: bool
) -> QuestionSource:
    """All questions; those that cannot be learned from are problems.

    Where they are `judged` alone (validation, test) a question stays whose place is wrong: the
    official rules look at the texts. One without an answer is wrong where answers are `wanted`.
    """
    held = read_json_text(path)
    articles = held.get("data") if isinstance(held, dict) else None
    if not isinstance(articles, list):
        raise ToolkitError(
            f"{path}:1: the file must be an object with a list 'data', as SQuAD's, but is "
            f"{describe_value(held)}. Give the file as it was published."
        )
    reader = SquadReader(path, max_bytes, judged=evaluated, wanted=answers_required)
    passages = [passage for article in paragraphs(path, articles) for passage in reader(*article)]
    if not passages and not reader.problems:
        raise ToolkitError(f"{path}:1: the file must hold questions, but has none. Give another.")
    version = str(held.get("version", ""))
    none_allowed = version.lower().removeprefix("v").startswith("2") or reader.none_met
    notes = [f"{reader.silent:,} paragraphs without questions"] if reader.silent else []
    return QuestionSource(path, passages, reader.problems, notes, none_allowed)


def describe_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:5])) or 'nothing'}"
    return f"of type {type(value).__name__}"


def paragraphs(path: Path, articles: Sequence[Any]) -> Iterator[tuple[ParagraphLocation, Any]]:
    for number, article in enumerate(articles, 1):
        found = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(found, list):
            raise ToolkitError(
                f"{path}:article {number}: an article must have a list 'paragraphs', but is "
                f"{describe_value(article)}. Give the file as it was published."
            )
        title = str(article.get("title", ""))[:SHOWN]
        for count, paragraph in enumerate(found, 1):
            yield ParagraphLocation(number, title, count), paragraph


class SquadReader:
    """Reads paragraphs one by one and keeps what is wrong with them."""

    def __init__(self, path: Path, max_bytes: int, *, judged: bool, wanted: bool) -> None:
        self.path, self.max_bytes = path, max_bytes
        self.judged, self.wanted = judged, wanted
        self.problems: list[QuestionProblem] = []
        self.places: dict[str, str] = {}
        """Where the question of each id stands."""
        self.silent = 0
        """Paragraphs that nothing is asked about."""
        self.none_met = False
        """Whether a question says that it has no answer."""

    def __call__(self, place: ParagraphLocation, paragraph: Any) -> Iterator[Passage]:
        """The passage, unless there is nothing to be asked about it."""
        context = paragraph.get("context") if isinstance(paragraph, dict) else None
        questions = paragraph.get("qas") if isinstance(paragraph, dict) else None
        if not isinstance(context, str) or not isinstance(questions, list):
            self.add_problem(
                place, f"a paragraph must have 'context' and 'qas', {instead(paragraph)}"
            )
            return
        if (size := utf8_size(context)) > self.max_bytes:
            raise ToolkitError(
                f"{self.path}:{place}: a context must have at most {self.max_bytes} bytes, but has "
                f"{size}. Shorten it, or raise --max-line-bytes."
            )
        self.silent += not questions
        if questions and not context.strip():
            what = f"the context must hold text, but is blank, {count_questions(questions)}."
            self.add_problem(place, what, kept=self.judged, lost=len(questions))
            questions = questions if self.judged else []
        found = [self.question(place, n, q, context) for n, q in enumerate(questions, 1)]
        if kept := [question for question in found if question is not None]:
            yield Passage(context, questions=kept)

    def add_problem(
        self, where: ParagraphLocation | str, what: str, *, kept: bool = False, lost: int = 1
    ) -> None:
        self.problems.append(QuestionProblem(self.path, str(where), what, kept, lost))

    def question(
        self, place: ParagraphLocation, number: int, held: Any, context: str
    ) -> SpanQuestion | None:
        name = held.get("id") if isinstance(held, dict) else None
        where = f"{place}, question {number}"
        if isinstance(name, int):
            name = str(name)
        if not isinstance(name, str) or not name or not isinstance(held.get("question"), str):
            self.add_problem(where, f"a question must have 'id' and 'question', {instead(held)}")
            return None
        where = f"{where}, id {name}"
        if name in self.places:
            self.add_problem(
                where, f"an id must be of one question, but is that of {self.places[name]}."
            )
            return None
        self.places[name] = where
        try:
            return self.answered(name, where, held, context)
        except ValueError as fault:
            self.add_problem(where, str(fault))
            return None

    def answered(
        self, name: str, where: str, held: Mapping[str, Any], context: str
    ) -> SpanQuestion:
        """Raises ValueError with what is wrong about its answers."""
        none = held.get("is_impossible", False)
        given = held.get("answers")
        given = [] if given is None else given
        if not isinstance(none, bool) or not isinstance(given, list):
            raise ValueError("'answers' must be a list and 'is_impossible' true or false.")
        self.none_met |= none
        answers = [self.answer(answer, context, where) for answer in given]
        if none and given:
            raise ValueError("a question without an answer must have none, but has.")
        if self.wanted and not (none or given):
            raise ValueError("a question must have an answer, or say that there is none.")
        return SpanQuestion(name, held["question"], tuple(answers), none, f"{self.path}:{where}")

    def answer(self, held: Any, context: str, where: str) -> GoldAnswer:
        """One that is judged by its text alone may be elsewhere than it says."""
        text, begin = (held.get(key) if isinstance(held, dict) else None for key in ANSWER)
        if not isinstance(text, str) or not isinstance(begin, int):
            raise ValueError(f"an answer must have 'text' and 'answer_start', {instead(held)}")
        answer = GoldAnswer(text, begin)
        if begin >= 0 and context[begin : answer.end] == text and text.strip():
            return answer
        what = describe_mismatch(answer, context)
        if not self.judged:
            raise ValueError(what)
        if context.strip():  # a blank one is told once
            self.add_problem(where, what, kept=True)
        return GoldAnswer(text, NOWHERE)


ANSWER = ("text", "answer_start")
NOWHERE = -1
"""Where an answer begins that does not stand where it says."""


def describe_mismatch(answer: GoldAnswer, context: str) -> str:
    """What stands there instead, and where the text does stand."""
    if not answer.text.strip():
        return "an answer must hold text, but is blank."
    stands = context[max(answer.start, 0) : answer.end][:SHOWN]
    found = context.find(answer.text)
    where = f"it stands at {found}" if found >= 0 else "it stands nowhere in the context"
    return (
        f"an answer must stand where it says, but at {answer.start} stands {stands!r}, not "
        f"{answer.text[:SHOWN]!r}; {where}."
    )


def instead(held: Any) -> str:
    return f"but is {describe_value(held)}."


def count_questions(questions: Sequence[Any]) -> str:
    return f"and {len(questions):,} question{'s are' if len(questions) > 1 else ' is'} asked"
