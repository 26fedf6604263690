"""Columns of a folder of questions, and the questions of a split over all folders that have it.

Every item is a question. The columns of its passage are stored with the passage's first question
and are empty for the others, which store how many items back that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.json_files import JsonObject, decode, name_file
from toolkit.config.declared import Options
from toolkit.data.formats.folder_kinds import check_kind
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder


@dataclass(frozen=True, kw_only=True)
class QaFormatConfig(Options, section="format"):
    """Options of the formats for questions."""

    on_malformed: Literal["error", "skip"] = "error"
    """How to handle a question that is incomplete, or whose answer is not at its offset. error:
    stop and name its file and line. skip: leave it out, report and count it; not in data to be
    submitted."""


SQUAD, MULTIPLE_CHOICE = "squad", "multiple_choice"
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"
TOKEN_IDS = "ids"
"""Stands for the dtype of the vocabulary's ids."""
SQUAD_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, QUESTION: TOKEN_IDS, TEXT: "<u1", RECORD: "<u1"},
    **dict.fromkeys((BEGINS, ENDS, BACK, SPAN), "<i4"),
}
CHOICE_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, OPTIONS: TOKEN_IDS, RECORD: "<u1"},
    **dict.fromkeys((BACK, COUNTS, ANSWER), "<i4"),
}


FORMATS = {SQUAD: "squad", MULTIPLE_CHOICE: "race or swag"}


class LocatedPassage(NamedTuple):
    """A passage as in its file, and the span of each token in it."""

    text: str
    begins: IntArray
    ends: IntArray


class QuestionSplit:
    """Questions, each with its passage. Texts are read on demand."""

    kind: str

    def __init__(self, folder: DataFolder, split: str) -> None:
        options = f"--format {FORMATS[self.kind]}"
        check_kind(folder, self.kind, task=self.kind, holds="questions", options=options)
        self.folder, self.name, self.vocabulary = folder, split, folder.vocabulary
        self._column = folder.split(split).column
        self.passages = TokenColumn(self._column(CONTEXT))
        back = self._column(BACK).read_all()
        self.passage_items: IntArray = np.arange(len(back)) - back
        """The item that has the passage of each question."""
        self.passage_lengths = self.passages.lengths[self.passage_items].astype(np.int64)

    def __len__(self) -> int:
        return len(self.passage_items)

    @cached_property
    def records(self) -> list[JsonObject]:
        """The id of each question, and what its evaluation needs."""
        column = self._column(RECORD)
        data = column.read_all().astype(np.uint8).tobytes()
        ends = np.cumsum(TokenColumn(column).lengths).tolist()
        with name_file(self.folder.path, "Run toolkit-preprocess again."):
            return [decode(data[start:end], JsonObject) for start, end in pairwise([0, *ends])]


class SquadSplit(QuestionSplit):
    """Questions whose answers are parts of their passages."""

    kind = SQUAD

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.questions = TokenColumn(self._column(QUESTION))
        self.spans = self._column(SPAN).read_all().reshape(-1, 2)
        """First and last token of an answer; -1 if unanswerable, -2 if unknown."""
        sources = [source for source in folder.sources if split in source.splits]
        self.none_allowed = any(source.counts(split).get("none_allowed") for source in sources)
        """Whether a passage may have no answer, as in SQuAD 2.0."""
        columns = (TEXT, BEGINS, ENDS)
        self._text, self._begins, self._ends = (TokenColumn(self._column(c)) for c in columns)
        self._last: tuple[int, LocatedPassage] | None = None

    def read_passage(self, question: int) -> LocatedPassage:
        """The question's passage; the one that was read last is cached."""
        item = int(self.passage_items[question])
        if self._last is None or self._last[0] != item:
            data, begins, ends = (
                column.take(np.array([item]), column.lengths[item : item + 1]).ids
                for column in (self._text, self._begins, self._ends)
            )
            text = data.astype(np.uint8).tobytes().decode("utf-8", "surrogatepass")
            self._last = item, LocatedPassage(text, begins, ends)
        return self._last[1]


class ChoiceSplit(QuestionSplit):
    """Questions with several options each."""

    kind = MULTIPLE_CHOICE

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.options = TokenColumn(self._column(OPTIONS))
        """All options of a question back to back."""
        self.answers = self._column(ANSWER).read_all()
        """Index of the correct option; -1 if unknown."""
        counts = self._column(COUNTS)
        self.option_lengths = counts.read_all()
        """Tokens of every option, question by question."""
        self.option_counts = np.concatenate([np.diff(part.offsets) for part in counts.parts])
        """Number of options per question."""
