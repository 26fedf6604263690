"""Questions about passages: SQuAD, RACE and SWAG.

Windows over long passages are not stored: they follow from numbers and the task's options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_format
from toolkit.data.formats.format import Block, Format, Job, SplitReport
from toolkit.data.formats.qa.answer_spans import AnswerMismatch
from toolkit.data.formats.qa.columns import (
    BACK,
    CHOICE_COLUMNS,
    CONTEXT,
    MULTIPLE_CHOICE,
    SQUAD,
    SQUAD_COLUMNS,
    TOKEN_IDS,
)
from toolkit.data.formats.qa.config import QaFormatConfig
from toolkit.data.formats.qa.encode_questions import build_chunk
from toolkit.data.formats.qa.files import SQUAD_FILES, SWAG_FILES, list_race_folders
from toolkit.data.formats.qa.passages import Passage, QuestionProblem, QuestionSource
from toolkit.data.formats.qa.race import read_race
from toolkit.data.formats.qa.squad import read_squad
from toolkit.data.formats.qa.swag import read_swag
from toolkit.data.preprocessing.benchmark_files import SplitFiles, list_benchmark_files
from toolkit.data.storage.split_writer import ColumnType
from toolkit.data.tokenizers.tokenizer import Tokenizer

PASSAGES_AT_ONCE = 256
SHOWN = 5
"""Problems of one kind that are printed for each split; the JSON records hold all."""
COUNTS = ("questions", "passages", "none", "unlabeled", "options", "answers", "recovered")
PROBLEM_COUNTS = ("malformed", "mended")


class QaFormat(Format[list[QuestionSource]]):
    """What the formats of questions share; each of them reads its own files."""

    unit = "questions"
    shared_heads = ("files", "passages", "questions", "tokens", "left out")

    def __init__(self, options: QaFormatConfig, config: Any) -> None:
        super().__init__(options, config)
        self.mismatches: dict[str, list[AnswerMismatch]] = {}

    def list_files(self) -> SplitFiles:
        """Split -> the files or folders to read."""
        raise NotImplementedError

    def read_source(self, split: str, path: Path) -> QuestionSource:
        """The questions of a file or folder. Test questions may lack answers."""
        raise NotImplementedError

    def read(self) -> dict[str, list[QuestionSource]]:
        splits = {
            split: self.read_split(split, paths) for split, paths in self.list_files().items()
        }
        for sources in splits.values():
            for source in sources:
                self.check_problems(source)
        return splits

    def read_split(self, split: str, files: Sequence[Path]) -> list[QuestionSource]:
        return [self.read_source(split, path) for path in files]

    def check_problems(self, source: QuestionSource) -> None:
        """Raise at the first malformed question, unless questions may be left out.

        None may of data without answers, whose predictions are to be complete.
        """
        lost = [problem for problem in source.problems if not problem.kept]
        if lost and source.passages and not any(map(is_labeled, source.passages)):
            raise ToolkitError(f"{lost[0]}{count_problems(lost)} Correct it.")
        skip = self.options.on_malformed == "skip"
        if source.problems and not (skip and source.passages):
            useless = skip or not source.passages
            advice = "Correct it." if useless else "Correct it, or give --on-malformed skip."
            count = count_problems(source.problems)
            raise ToolkitError(f"{source.problems[0]}{count} {advice}")

    def texts(self, content: list[QuestionSource]) -> Iterable[str]:
        for passage in (passage for source in content for passage in source.passages):
            yield passage.text
            yield from (question.text for question in passage.questions)
            yield from (option for choice in passage.choices for option in choice.options)

    def max_workers(self, splits: Mapping[str, list[QuestionSource]]) -> int:
        return max((len(list(batch_passages(sources))) for sources in splits.values()), default=1)

    def columns(self, split: str, tokenizer: Tokenizer) -> Mapping[str, ColumnType]:
        types = SQUAD_COLUMNS if self.kind == SQUAD else CHOICE_COLUMNS
        words = tokenizer.vocabulary
        return {name: words if kind == TOKEN_IDS else kind for name, kind in types.items()}

    def encode(self, split: str, content: list[QuestionSource], job: Job) -> Iterator[Block]:
        """Each passage is a document."""
        build = partial(build_chunk, kind=self.kind, folder=job.folder)
        self.mismatches[split] = []
        for _, chunk in job.pool.imap(build, batch_passages(content)):
            self.mismatches[split] += chunk.misses
            recovered = chunk.counts["answers"] - len(chunk.misses)
            yield Block(
                chunk.columns,
                chunk.columns[BACK][0] == 0,
                {
                    "questions": len(chunk.columns[BACK][1]),
                    **{name: chunk.counts[name] for name in COUNTS[1:-1]},
                    "recovered": recovered,
                },
            )

    def split_metadata(self, content: list[QuestionSource]) -> dict[str, Any]:
        problems = [problem for source in content for problem in source.problems]
        return {
            "malformed": sum(problem.lost for problem in problems if not problem.kept),
            "mended": sum(problem.kept for problem in problems),
            "none_allowed": int(any(source.none_allowed for source in content)),
            "files": [source.path.name for source in content],
        }

    def settings(self, tokenizer: Tokenizer) -> dict[str, Any]:
        malformed = self.options.on_malformed
        return {"tokenizer": tokenizer.kind, "questions": self.name, "malformed": malformed}

    def title(self, tokenizer: Tokenizer) -> str:
        return self.name

    def summary(self, tokenizer: Tokenizer) -> dict[str, Any]:
        return {}

    def own_cells(self, entry: Mapping[str, Any]) -> list[str]:
        """Cells of the table below the heads that are not shared."""
        raise NotImplementedError

    def report_split(
        self, split: str, content: list[QuestionSource] | None, entry: Mapping[str, Any]
    ) -> SplitReport:
        tokens = entry["columns"][CONTEXT]["parts"][0]["elements"]
        numbers = (len(entry["files"]), entry["passages"], entry["questions"], tokens)
        cells = [f"{number:,}" for number in (*numbers, entry["malformed"])]
        return SplitReport(
            {"tokens": tokens, **{name: entry[name] for name in (*COUNTS, *PROBLEM_COUNTS)}},
            [*cells, *self.own_cells(entry)],
            entry["questions"],
            [*self.describe_problems(split, content or [])],
            [*self.problem_events(split, content or [])],
        )

    def describe_problems(self, split: str, sources: Sequence[QuestionSource]) -> Iterator[str]:
        """Files passed over; questions left out, or kept in spite of a problem; answers that their
        tokens do not give back."""
        yield from (f"{source.path}: {note}" for source in sources for note in source.notes)
        problems = [problem for source in sources for problem in source.problems]
        yield from first_lines(split, "left out", [it for it in problems if not it.kept])
        yield from first_lines(split, "evaluated by its text", [it for it in problems if it.kept])
        yield from first_lines(split, "not recovered exactly:", self.mismatches[split])

    def problem_events(
        self, split: str, sources: Sequence[QuestionSource]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """All of these, for programs."""
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
    heads = (*QaFormat.shared_heads, "without answer", "answers found")

    def list_files(self) -> SplitFiles:
        return list_benchmark_files(self.config, SQUAD_FILES)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        limit = self.config.max_line_bytes
        return read_squad(path, limit, evaluated=split != "train", answers_required=split != "test")

    def own_cells(self, entry: Mapping[str, Any]) -> list[str]:
        answers, recovered = entry["answers"], entry["recovered"]
        share = f"{recovered:,} of {answers:,} ({recovered / answers:.2%})" if answers else "none"
        return [f"{entry['none']:,}", share]


class MultipleChoiceFormat(QaFormat):
    """Questions with several options each."""

    kind = MULTIPLE_CHOICE
    heads = (*QaFormat.shared_heads, "options", "answers")

    def own_cells(self, entry: Mapping[str, Any]) -> list[str]:
        return [f"{entry['options']:,}", f"{entry['questions'] - entry['unlabeled']:,}"]


@register_format("race", QaFormatConfig())
class RaceFormat(MultipleChoiceFormat):
    """RACE's folders, with a file for each passage."""

    def list_files(self) -> SplitFiles:
        return list_race_folders(self.config)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        return read_race(path, self.config.max_line_bytes, answers_required=split != "test")


@register_format("swag", QaFormatConfig())
class SwagFormat(MultipleChoiceFormat):
    """SWAG's csv and CODAH's tsv."""

    def list_files(self) -> SplitFiles:
        return list_benchmark_files(self.config, SWAG_FILES)

    def read_source(self, split: str, path: Path) -> QuestionSource:
        return read_swag(path, self.config.max_line_bytes, answers_required=split != "test")


def is_labeled(passage: Passage) -> bool:
    """Whether an answer to one of its questions is known."""
    return any(question.labeled for question in passage.questions) or any(
        choice.answer is not None for choice in passage.choices
    )


def count_problems(problems: Sequence[QuestionProblem]) -> str:
    return f" The file has {len(problems):,} such problems." if len(problems) > 1 else ""


def batch_passages(sources: Iterable[QuestionSource]) -> Iterator[list[Passage]]:
    """Passages that one worker encodes at once; no batch has passages of two sources."""
    for source in sources:
        for start in range(0, len(source.passages), PASSAGES_AT_ONCE):
            yield list(source.passages[start : start + PASSAGES_AT_ONCE])


def first_lines(split: str, what: str, things: Sequence[object]) -> Iterator[str]:
    """The first few as lines, and the number of the others."""
    lines = list(dict.fromkeys(map(str, things)))  # an answer that several gave appears once
    yield from (f"{what} {line}" for line in lines[:SHOWN])
    if len(lines) > SHOWN:
        yield f"and {len(lines) - SHOWN:,} more of {split} {what.rstrip(':')}"
