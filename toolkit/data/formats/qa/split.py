"""Questions in data folders: their columns, those of a split, and windows over long passages.

Every item is a question. The columns of its passage are stored with the passage's first question
and are empty for the others, which store how many items back that is. Windows are not stored: tasks
compute them from their options (Devlin et al. 2019, code).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange
from toolkit.common.json_files import JsonObject, decode, name_file
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.data_folder import DataFolder, check_kind

SQUAD, MULTIPLE_CHOICE = "squad", "multiple_choice"
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"


class LocatedPassage(NamedTuple):
    """A passage as in its file, and the span of each token in it."""

    text: str
    begins: IntArray
    ends: IntArray


class QuestionSplit:
    """Questions, each with its passage. Texts are read on demand."""

    kind: str
    formats: str

    def __init__(self, folder: DataFolder, split: str) -> None:
        options = f"--format {self.formats}"
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

    kind, formats = SQUAD, "squad or rows"

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

    kind, formats = MULTIPLE_CHOICE, "race, swag or rows"

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.options = TokenColumn(self._column(OPTIONS))
        """All options of a question back to back."""
        self.answers = self._column(ANSWER).read_all()
        """Index of the correct option; -1 if unknown."""
        counts = self._column(COUNTS)
        self.option_lengths = counts.read_all()
        """Tokens of every option, question by question."""
        self.option_counts = counts.lengths
        """Number of options per question."""


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


def character_span(starts: IntArray, ends: IntArray, first: int, last: int) -> tuple[int, int]:
    """The characters from the first to the last token, of which the last may cover none."""
    return int(starts[first]), max(int(starts[first]), int(ends[last]))
