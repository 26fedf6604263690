"""Questions about passages: SQuAD, RACE and SWAG.

Windows over long passages are not stored: tasks compute them from their options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.formats.format import Block, Format, Job, SplitReport, count_column
from toolkit.data.formats.qa.encode_questions import AnswerMismatch, encode_passages
from toolkit.data.formats.qa.multiple_choice import read_race, read_swag
from toolkit.data.formats.qa.split import (
    BACK,
    CHOICE_COLUMNS,
    CONTEXT,
    MULTIPLE_CHOICE,
    SQUAD,
    SQUAD_COLUMNS,
    SQUAD_FILES,
    SWAG_FILES,
    TOKEN_IDS,
    Passage,
    QaFormatConfig,
    QuestionSource,
    list_race_folders,
)
from toolkit.data.formats.qa.squad import read_squad
from toolkit.data.preprocessing.input_files import list_benchmark_files
from toolkit.data.preprocessing.report import list_first, raise_malformed
from toolkit.data.storage.column_files import ColumnType
from toolkit.data.tokenizers.tokenizer import Tokenizer

BATCH_PASSAGES = 256
COUNTS = ("passages", "none", "unlabeled", "options", "answers")
REPORTED = ("questions", *COUNTS, "recovered", "malformed", "mended")


class QaFormat(Format[list[QuestionSource], Tokenizer]):
    """Base class of questions; a subclass defines `list_files` and `read_source`."""

    unit = "questions"
    options: QaFormatConfig

    def __init__(self, options: QaFormatConfig, config: PreprocessConfig) -> None:
        super().__init__(options, config)
        self.mismatches: dict[str, list[AnswerMismatch]] = {}

    def read_source(self, split: str, path: Path) -> QuestionSource:
        """The questions of a file or folder. Test questions may lack answers."""
        raise NotImplementedError

    def read_split(self, split: str, files: Sequence[Path]) -> list[QuestionSource]:
        sources = [self.read_source(split, path) for path in files]
        for source in sources:
            self.check_problems(source)
        return sources

    def check_problems(self, source: QuestionSource) -> None:
        """Raise for malformed questions, unless they may be left out.

        Those of a file without answers may not, because predictions for it must be complete.
        """
        dropped = [problem for problem in source.problems if not problem.kept]
        if dropped and source.passages and not any(map(is_labeled, source.passages)):
            raise_malformed(dropped, skippable=False)
        skip = self.options.on_malformed == "skip"
        if source.problems and not (skip and source.passages):
            raise_malformed(source.problems, skippable=not skip and bool(source.passages))

    def texts(self, content: list[QuestionSource]) -> Iterable[str]:
        for passage in (passage for source in content for passage in source.passages):
            yield passage.text
            yield from (question.text for question in passage.questions)
            yield from (option for choice in passage.choices for option in choice.options)

    def max_workers(self, splits: Mapping[str, list[QuestionSource]]) -> int:
        return max((len(list(batch_passages(sources))) for sources in splits.values()), default=1)

    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        types = SQUAD_COLUMNS if self.kind == SQUAD else CHOICE_COLUMNS
        vocabulary = tokenizer.vocabulary
        return {name: vocabulary if kind == TOKEN_IDS else kind for name, kind in types.items()}

    def encode(
        self, split: str, content: list[QuestionSource], job: Job[Tokenizer]
    ) -> Iterator[Block]:
        """Each passage is a document."""
        encode = partial(encode_passages, kind=self.kind, folder=job.folder)
        self.mismatches[split] = []
        for _, chunk in job.pool.imap(encode, batch_passages(content)):
            self.mismatches[split] += chunk.mismatches
            back, questions = chunk.columns[BACK]
            counts = {"questions": len(questions), **{name: chunk.counts[name] for name in COUNTS}}
            counts["recovered"] = counts["answers"] - len(chunk.mismatches)
            yield Block(chunk.columns, back == 0, counts)

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

    def title(self, tokenizer: Tokenizer) -> str:
        return self.name

    def summary(self, tokenizer: Tokenizer) -> JsonObject:
        return {}

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        """Further cells of a split's row in the printed table."""
        raise NotImplementedError

    def report_split(
        self, split: str, content: list[QuestionSource] | None, entry: JsonObject
    ) -> SplitReport:
        tokens, sources = count_column(entry["columns"][CONTEXT])["tokens"], content or []
        row = {
            "files": len(entry["files"]),
            "passages": entry["passages"],
            "questions": entry["questions"],
            "tokens": tokens,
            "left out": entry["malformed"],
        }
        return SplitReport(
            record={"tokens": tokens, **{name: entry[name] for name in REPORTED}},
            row={**row, **self.more_cells(entry)},
            total=entry["questions"],
            notes=list(self.describe_problems(split, sources)),
            events=list(self.list_events(split, sources)),
        )

    def describe_problems(self, split: str, sources: Sequence[QuestionSource]) -> Iterator[str]:
        """Skipped files, malformed questions, and answers that their tokens do not recover."""
        yield from (f"{source.path}: {note}" for source in sources for note in source.notes)
        problems = [problem for source in sources for problem in source.problems]
        yield from list_first(split, "left out", [it for it in problems if not it.kept])
        yield from list_first(split, "evaluated by its text", [it for it in problems if it.kept])
        yield from list_first(split, "not recovered exactly:", self.mismatches[split])

    def list_events(
        self, split: str, sources: Sequence[QuestionSource]
    ) -> Iterator[tuple[str, JsonObject]]:
        """The notes and problems of a split as names and values of JSON records."""
        for source in sources:
            for note in source.notes:
                yield "note", {"file": str(source.path), "what": note}
        for problem in (problem for source in sources for problem in source.problems):
            values = {"file": str(problem.path), "where": problem.where, "what": problem.what}
            yield ("kept" if problem.kept else "left_out"), values
        for mismatch in self.mismatches[split]:
            yield "miss", mismatch._asdict()


@register_format("squad", QaFormatConfig())
class SquadFormat(QaFormat):
    """SQuAD's JSON, 1.1 or 2.0."""

    kind = SQUAD

    def list_files(self) -> Mapping[str, list[Path]]:
        return list_benchmark_files(self.config.inputs, SQUAD_FILES)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        limit = self.config.max_line_bytes
        return read_squad(path, limit, evaluated=split != "train", answers_required=split != "test")

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        answers, recovered = entry["answers"], entry["recovered"]
        share = f"{recovered:,} of {answers:,} ({recovered / answers:.2%})" if answers else "none"
        return {"without answer": entry["none"], "answers found": share}


class MultipleChoiceFormat(QaFormat):
    """Base class of questions with several options each."""

    kind = MULTIPLE_CHOICE

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        return {"options": entry["options"], "answers": entry["questions"] - entry["unlabeled"]}


@register_format("race", QaFormatConfig())
class RaceFormat(MultipleChoiceFormat):
    """RACE's folders, with a file for each passage."""

    def list_files(self) -> Mapping[str, list[Path]]:
        return list_race_folders(self.config.inputs)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        return read_race(path, self.config.max_line_bytes, answers_required=split != "test")


@register_format("swag", QaFormatConfig())
class SwagFormat(MultipleChoiceFormat):
    """SWAG's csv and CODAH's tsv."""

    def list_files(self) -> Mapping[str, list[Path]]:
        return list_benchmark_files(self.config.inputs, SWAG_FILES)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        return read_swag(path, self.config.max_line_bytes, answers_required=split != "test")


def is_labeled(passage: Passage) -> bool:
    """Whether the answer to at least one of its questions is known."""
    return any(question.labeled for question in passage.questions) or any(
        choice.answer is not None for choice in passage.choices
    )


def batch_passages(sources: Iterable[QuestionSource]) -> Iterator[list[Passage]]:
    """Passages that one worker encodes at once; no batch has passages of two sources."""
    for source in sources:
        for start in range(0, len(source.passages), BATCH_PASSAGES):
            yield list(source.passages[start : start + BATCH_PASSAGES])
