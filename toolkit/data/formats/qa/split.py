"""The questions of a split, over all folders that have it."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa import columns as names
from toolkit.data.formats.tagging.split import read_column
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.columns import Column
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import Vocabulary

FORMATS = {names.SQUAD: "squad", names.MULTIPLE_CHOICE: "race or swag"}


class LocatedPassage(NamedTuple):
    """A passage as it was written, and where in it each token stands."""

    text: str
    begins: IntArray
    ends: IntArray


class QuestionSplit:
    """Questions, each with its passage. Texts are read when they are asked for."""

    kind: str

    def __init__(self, folder: DataFolder, split: str) -> None:
        if folder.kind != self.kind:
            raise ToolkitError(
                f"task {self.kind} must have a folder of questions, but {folder.name} is of "
                f"kind {folder.kind}. Run toolkit-preprocess with --format {FORMATS[self.kind]}."
            )
        self.folder, self.name = folder, split
        self.vocabulary: Vocabulary = folder.vocabulary
        self._columns = folder.split(split).columns
        self.passages = self._text(names.CONTEXT)
        back = self._values(names.BACK)
        self.passage_of: IntArray = np.arange(len(back)) - back
        """The item that has the passage of each question."""
        self.passage_lengths = self.passages.lengths[self.passage_of].astype(np.int64)

    def __len__(self) -> int:
        return len(self.passage_of)

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """What each question is called, and whatever it is judged by."""
        data = self._values(names.RECORD).astype(np.uint8).tobytes()
        ends = np.cumsum(self._text(names.RECORD).lengths).tolist()
        return [json.loads(data[a:b]) for a, b in pairwise([0, *ends])]

    def _text(self, name: str) -> TokenColumn:
        return TokenColumn(self._columns[name])

    def _values(self, name: str) -> IntArray:
        column: Column = self._columns[name]
        return read_column(column).astype(np.int64, copy=False)

    def _item(self, column: TokenColumn, item: int) -> IntArray:
        place = np.array([item])
        return column.take(place, column.lengths[place].astype(np.int64)).ids

    def _bytes(self, column: TokenColumn, item: int) -> str:
        return self._item(column, item).astype(np.uint8).tobytes().decode("utf-8", "surrogatepass")


class SquadSplit(QuestionSplit):
    """Questions whose answers are parts of their passages."""

    kind = names.SQUAD

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.questions = self._text(names.QUESTION)
        self.spans = self._values(names.SPAN).reshape(-1, 2)
        """First and last token of an answer; -1 if unanswerable, -2 if unknown."""
        sources = [source for source in folder.sources if split in source.splits]
        self.none_allowed = any(source.counts(split).get("none_allowed") for source in sources)
        """Whether a passage may have no answer, as in SQuAD 2.0."""
        self._begins, self._ends = self._text(names.BEGINS), self._text(names.ENDS)
        self._texts = self._text(names.TEXT)
        self._last: tuple[int, LocatedPassage] | None = None

    def read_passage(self, question: int) -> LocatedPassage:
        """Its passage; the one that was asked for last is kept."""
        item = int(self.passage_of[question])
        if self._last is None or self._last[0] != item:
            begins, ends = self._item(self._begins, item), self._item(self._ends, item)
            self._last = item, LocatedPassage(self._bytes(self._texts, item), begins, ends)
        return self._last[1]


class ChoiceSplit(QuestionSplit):
    """Questions with several options each."""

    kind = names.MULTIPLE_CHOICE

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.options = self._text(names.OPTIONS)
        """All options of a question back to back."""
        self.answers = self._values(names.ANSWER)
        """The right option of each, from 0; -1 where it is not known."""
        counts = self._columns[names.COUNTS]
        self.option_lengths = self._values(names.COUNTS)
        """Tokens of every option, question by question."""
        self.option_counts = np.concatenate([np.diff(part.offsets) for part in counts.parts])
        """How many options each question has."""
