"""Rows with a question about a text: several options, or an answer in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, zip_longest
from pathlib import Path
from string import ascii_uppercase
from typing import Any, ClassVar

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.format import MAX_QUOTED, Problem, parse_records
from toolkit.data.formats.qa import multiple_choice, squad
from toolkit.data.formats.qa.format import ChoiceQuestion, Passage, QaFormat, QuestionSource
from toolkit.data.formats.rows.format import LabeledRows, RowsConfig
from toolkit.data.raw_items import Fields, find_names, rename_fields
from toolkit.data.records import Record
from toolkit.data.tokenizers.tokenizer import Tokenizer

START = "answer_start"


class QuestionRows(LabeledRows[list[QuestionSource], Tokenizer], QaFormat):
    """Base class of questions in rows."""

    options: RowsConfig
    fields: Fields
    labels: ClassVar[Sequence[str]]
    """Default names of the column with the label."""

    def check(self) -> None:
        super().check()
        if self.options.text_columns:
            names = [name.strip() for name in self.options.text_columns.split(",")]
            self.fields = rename_fields(self.fields, names)
        self.item_columns = {field.name: field.column for field in self.fields if field.column}

    def read_label(self, record: Record) -> Any:
        """The value in the column of the label, which only test files may lack."""
        names = (self.options.label_column,) if self.options.label_column else self.labels
        values = record.values if isinstance(record.values, dict) else {}
        column = next(filter(values.__contains__, names), names[0])
        return values.get(column) if self.split == "test" else record.value(column)


class ChoiceRows(QuestionRows, multiple_choice.MultipleChoiceFormat):
    """A context, options, and the correct one: its number from 0, its letter, or its text."""

    fields, labels = multiple_choice.FIELDS, ("label", "answer", "answerKey")

    def read_source(self, split: str, path: Path) -> QuestionSource:
        problems = list[Problem]()
        passages = merge_passages(parse_records(self.records(path), self.parse_passage, problems))
        return QuestionSource(path, passages, problems)

    def parse_passage(self, number: int, record: Record) -> Passage:
        """The context of a row, with its question."""
        values = self.read_values(record, self.fields)
        try:
            context, options, completed = multiple_choice.parse_choices(values)
        except ToolkitError as error:
            raise ValueError(str(error)) from None
        answer = self.parse_answer(record, options)
        return Passage(context, choices=(ChoiceQuestion(str(number), completed, answer, ""),))

    def parse_answer(self, record: Record, options: Sequence[str]) -> int | None:
        """The index of the correct option; None if it is unknown."""
        value = self.read_label(record)
        if self.split == "test" and value in (None, "", -1):
            return None
        nested = record.values[find_names(self.fields[-1], record.values)[0]]
        named = [str(name) for name in nested.get("label", ())] if isinstance(nested, dict) else []
        numbers = [str(number) for number in range(len(options))]
        for known in (named,) if named else (numbers, [*ascii_uppercase[: len(options)]], options):
            if (text := str(value).strip()) and text in known:
                return known.index(text)
        raise ValueError(
            f"the answer must be one of {', '.join(named or numbers)}, or the letter or the text "
            f"of an option, but is {text[:MAX_QUOTED]!r}."
        )


class AnswerRows(QuestionRows, squad.SquadFormat):
    """A question, a context, and answers: a list, a pair of lists, or a text and its offset."""

    fields, labels = squad.FIELDS, ("answers", "answer_text")

    def read_source(self, split: str, path: Path) -> QuestionSource:
        limit, is_test = self.config.max_line_bytes, split == "test"
        reader = squad.SquadReader(path, limit, split != "train", not is_test)
        known = not is_test or any(self.read_answers(record) for _, record in self.records(path))

        def parse(number: int, record: Record) -> Passage | None:
            question, context = self.read_values(record, self.fields).values()
            answers = self.read_answers(record)
            asked = {"id": record.values.get("id", number), "question": question}
            impossible = record.values.get("is_impossible", known and not answers)
            asked |= {"answers": answers, "is_impossible": impossible}
            return reader.read_paragraph(str(record.line), {"context": context, "qas": [asked]})

        passages = filter(None, parse_records(self.records(path), parse, reader.problems))
        return reader.finish(merge_passages(passages))

    def read_answers(self, record: Record) -> Any:
        """The answers of a row as SQuAD's list."""
        found = self.read_label(record)
        if isinstance(found, list):
            return found
        values = record.values if isinstance(record.values, dict) else {}
        pairs: Iterable[Sequence[Any]] = [(found, values.get(START))]
        if isinstance(found, Mapping):
            lists = (found.get(name) for name in ("text", START))
            pairs = zip_longest(*(it if isinstance(it, list) else [it] for it in lists))
        return [make_answer(*pair) for pair in pairs if pair[0] not in (None, "")]


def make_answer(text: object, start: object) -> dict[str, object]:
    """An answer as SQuAD has it; tables have offsets as text, or as 12.0 in columns with gaps."""
    number = re.fullmatch(r"(\d+)(\.0)?", str(start))
    offset = {} if start is None else {START: int(number[1]) if number else start}
    return {"text": text, **offset}


def merge_passages(passages: Iterable[Passage]) -> list[Passage]:
    """One passage for the questions of consecutive rows with the same text."""
    merged = []
    for text, group in groupby(passages, lambda passage: passage.text):
        same = list(group)
        questions = [question for it in same for question in it.questions]
        merged.append(Passage(text, questions, [choice for it in same for choice in it.choices]))
    return merged
