"""Questions about passages: their columns, what the formats share, and windows over long passages.

Every item is a question. The columns of its passage are stored with the passage's first question;
the others store how many items back that is. Tasks compute windows (Devlin et al. 2019, code).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.arrays import BoolArray, IntArray, ragged_arange, split_rows
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonError, JsonObject, decode, name_file, parse
from toolkit.data.formats.format import (
    Block,
    Format,
    Job,
    MalformedOptions,
    Problem,
    SplitReport,
    check_malformed,
    count_column,
    list_first,
)
from toolkit.data.preprocessing.workers import shared_tokenizer
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.column_files import ColumnType
from toolkit.data.storage.data_folder import DataFolder, check_kind
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.offsets import replace_line_breaks
from toolkit.data.tokenizers.tokenizer import Tokenizer

SQUAD, MULTIPLE_CHOICE = "squad", "multiple_choice"
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"
BATCH_PASSAGES = 256
COUNTED = ("passages", "none", "unlabeled", "options", "answers")
REPORTED = ("questions", *COUNTED, "recovered", "malformed", "mended")
TOKEN_IDS = "ids"
"""Stands for the dtype of the vocabulary's ids."""


Answer = tuple[str, int]
"""A text, and the offset of its first character in the passage."""


class SpanQuestion(NamedTuple):
    """A question to be answered with a part of the passage."""

    name: str
    """Its id."""
    text: str
    answers: tuple[Answer, ...]
    """All correct answers; empty if unanswerable or unknown."""
    unanswerable: bool
    location: str

    @property
    def labeled(self) -> bool:
        return self.unanswerable or bool(self.answers)


class ChoiceQuestion(NamedTuple):
    """A question to be answered with one of several options."""

    name: str
    options: tuple[str, ...]
    """Texts to read after the passage: the question with each option, or continuations."""
    answer: int | None
    """Index of the correct option; None if unknown."""
    group: str
    """Group for separate metrics, such as middle or high; may be empty."""


class Passage(NamedTuple):
    """A text and the questions about it."""

    text: str
    questions: Sequence[SpanQuestion] = ()
    choices: Sequence[ChoiceQuestion] = ()

    @property
    def labeled(self) -> bool:
        """Whether the answer to at least one of its questions is known."""
        known = (choice.answer is not None for choice in self.choices)
        return any(question.labeled for question in self.questions) or any(known)


class QuestionSource(NamedTuple):
    """The contents of a file, or of a folder of files."""

    path: Path
    passages: Sequence[Passage]
    problems: Sequence[Problem]
    notes: Sequence[str] = ()
    """Further remarks, such as skipped files."""
    none_allowed: bool = False
    """Whether questions may have no answer, as in SQuAD 2.0."""


Columns = Mapping[str, tuple[IntArray, IntArray]]
"""Column -> the values of all items back to back, and the number per item."""
EncodedQuestions = tuple[Columns, Counter[str], list[JsonObject]]
"""The columns of questions, counts of them, and the answers that differ from their tokens."""
PassageEncoder = Callable[[Sequence[Passage], Tokenizer], EncodedQuestions]


class QaFormat(Format[list[QuestionSource], Tokenizer]):
    """Base class of questions; a subclass defines `read_source` and `more_cells`."""

    unit = "questions"
    types: ClassVar[Mapping[str, str]]
    """Column -> dtype."""
    encode_passages: ClassVar[staticmethod[[Sequence[Passage], Tokenizer], EncodedQuestions]]
    options: MalformedOptions

    def check(self) -> None:
        self.mismatches: dict[str, list[JsonObject]] = defaultdict(list)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        """The questions of a file or folder. Test questions may lack answers."""
        raise NotImplementedError

    def read_split(self, split: str, files: Sequence[Path]) -> list[QuestionSource]:
        sources = [self.read_source(split, path) for path in files]
        for source in sources:
            labeled = any(passage.labeled for passage in source.passages)
            check_malformed(source.problems, self.options.on_malformed, labeled=labeled)
        return sources

    def texts(self, content: list[QuestionSource]) -> Iterable[str]:
        for passage in (passage for source in content for passage in source.passages):
            yield passage.text
            yield from (question.text for question in passage.questions)
            yield from (option for choice in passage.choices for option in choice.options)

    def max_workers(self, splits: Mapping[str, list[QuestionSource]]) -> int:
        return max((len(list(batch_passages(it))) for it in splits.values()), default=1)

    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        ids = tokenizer.vocabulary
        return {name: ids if kind == TOKEN_IDS else kind for name, kind in self.types.items()}

    def encode(
        self, split: str, content: list[QuestionSource], job: Job[Tokenizer]
    ) -> Iterator[Block]:
        """Each passage is a document."""
        encode = partial(encode_in_worker, encoder=self.encode_passages, folder=job.folder)
        encoded = job.pool.imap(encode, batch_passages(content))
        for passages, (columns, found, mismatches) in encoded:
            self.mismatches[split] += mismatches
            back, questions = columns[BACK]
            counts = {name: found[name] for name in COUNTED}
            counts |= {"questions": len(questions), "passages": len(passages)}
            counts["recovered"] = counts["answers"] - len(mismatches)
            yield Block(columns, back == 0, counts)

    def split_metadata(self, content: list[QuestionSource]) -> JsonObject:
        problems = [problem for source in content for problem in source.problems]
        return {
            "malformed": sum(problem.lost for problem in problems if not problem.kept),
            "mended": sum(problem.kept for problem in problems),
            "none_allowed": int(any(source.none_allowed for source in content)),
            "files": [source.path.name for source in content],
        }

    def settings(self, tokenizer: Tokenizer) -> JsonObject:
        malformed = self.options.on_malformed
        return {"tokenizer": tokenizer.kind, "questions": self.name, "malformed": malformed}

    def describe(self, tokenizer: Tokenizer) -> tuple[str, JsonObject]:
        return self.name, {}

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        """Further cells of a split's row in the printed table."""
        raise NotImplementedError

    def report_split(
        self, split: str, content: list[QuestionSource] | None, entry: JsonObject
    ) -> SplitReport:
        """Besides: skipped files, malformed questions, and answers that tokens do not recover."""
        tokens, sources = count_column(entry["columns"][CONTEXT])["tokens"], content or []
        row = {
            "files": len(entry["files"]),
            "passages": entry["passages"],
            "questions": entry["questions"],
            "tokens": tokens,
            "left out": entry["malformed"],
        }
        remarks = [(str(source.path), note) for source in sources for note in source.notes]
        problems = [problem for source in sources for problem in source.problems]
        handled = {True: "kept", False: "left_out"}
        inexact = [
            f"{it['where']}: {it['wanted']!r} is read as {it['found']!r}, {it['why']}"
            for it in self.mismatches[split]
        ]
        return SplitReport(
            record={"tokens": tokens, **{name: entry[name] for name in REPORTED}},
            row={**row, **self.more_cells(entry)},
            total=entry["questions"],
            notes=[
                *(f"{path}: {note}" for path, note in remarks),
                *list_first(split, "left out", [it for it in problems if not it.kept]),
                *list_first(split, "evaluated by its text", [it for it in problems if it.kept]),
                *list_first(split, "not recovered exactly:", inexact),
            ],
            events=[
                *(("note", {"file": path, "what": note}) for path, note in remarks),
                *(
                    (handled[it.kept], {"file": str(it.path), "where": it.where, "what": it.what})
                    for it in problems
                ),
                *(("miss", mismatch) for mismatch in self.mismatches[split]),
            ],
        )


def batch_passages(sources: Iterable[QuestionSource]) -> Iterator[list[Passage]]:
    """Passages that one worker encodes at once; no batch has passages of two sources."""
    for source in sources:
        for start in range(0, len(source.passages), BATCH_PASSAGES):
            yield list(source.passages[start : start + BATCH_PASSAGES])


def encode_in_worker(
    passages: Sequence[Passage], encoder: PassageEncoder, folder: Path
) -> EncodedQuestions:
    """The passages' columns, by the tokenizer of the folder."""
    return encoder(passages, shared_tokenizer(folder))


def pack_columns(names: Iterable[str], items: Sequence[Mapping[str, npt.ArrayLike]]) -> Columns:
    """The columns of questions one after the other, which are empty where one has no values."""
    arrays = {name: [np.asarray(it.get(name, ()), np.int64) for it in items] for name in names}
    return {
        name: (
            np.concatenate([np.zeros(0, np.int64), *values]),
            np.array([len(value) for value in values], np.int64),
        )
        for name, values in arrays.items()
    }


def encode_bytes(text: str) -> IntArray:
    """The text's bytes in UTF-8, which also encode surrogates."""
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).astype(np.int64)


def encode_lines(tokenizer: Tokenizer, texts: Iterable[str]) -> list[IntArray]:
    """The ids of each text, whose line breaks become spaces."""
    return split_rows(*tokenizer.encode_lines([replace_line_breaks(text) for text in texts]))


def check_size(place: str, what: str, text: str, max_bytes: int) -> None:
    """Raise if a text has more bytes in UTF-8, including surrogates, which JSON can encode."""
    if (size := len(text.encode("utf-8", "surrogatepass"))) > max_bytes:
        raise ToolkitError(
            f"{place}: {what} must have at most {max_bytes} bytes, but has {size}. Shorten it, or "
            f"raise --max-line-bytes."
        )


def read_json_text(path: Path) -> Any:
    """The value in a JSON file, or the Problem of a file that is not JSON."""
    text = read_text(path, may_be_empty=True)
    try:
        return parse(text)
    except JsonError as error:
        ends = f"the file ends after {len(text):,} characters"
        return Problem(path, "1", f"the file must be JSON to its end: {error}; {ends}.")


class LocatedPassage(NamedTuple):
    """A passage as in its file, and the span of each token in it."""

    text: str
    begins: IntArray
    ends: IntArray


class QuestionSplit:
    """Questions, each with its passage. Texts are read on demand."""

    kind: str
    formats: str
    """The options that make such a folder."""

    def __init__(self, folder: DataFolder, split: str) -> None:
        check_kind(folder, self.kind, task=self.kind, holds="questions", options=self.formats)
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

    kind, formats = SQUAD, "--format squad or rows"

    def __init__(self, folder: DataFolder, split: str) -> None:
        super().__init__(folder, split)
        self.questions = TokenColumn(self._column(QUESTION))
        self.spans = self._column(SPAN).read_all().reshape(-1, 2)
        """First and last token of an answer; -1 if unanswerable, -2 if unknown."""
        counts = [source.counts(split) for source in folder.sources_of(split)]
        self.none_allowed = any(count.get("none_allowed") for count in counts)
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

    kind, formats = MULTIPLE_CHOICE, "--format race, swag or rows"

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


class Windows(NamedTuple):
    """Parts of passages, question by question."""

    question_ids: IntArray
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
