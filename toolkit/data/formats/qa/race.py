"""RACE's folders: a file for each passage, with its questions and their options (Lai et al. 2017).

A file is JSON: article, questions, options (a list for each question) and answers, as letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.passages import (
    ChoiceQuestion,
    InvalidJsonError,
    Passage,
    QuestionProblem,
    QuestionSource,
    read_json_text,
    utf8_size,
)

SUFFIXES = (".txt", ".txt.gz", ".txt.xz")
BLANK = "_"
"""What stands in a question where its answer belongs."""
SHOWN = 40


class RacePassage(NamedTuple):
    """A passage, and where each of its questions stands."""

    path: Path
    passage: Passage
    places: list[int]


def read_race(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """All .txt files, packed or not, in a folder and those in it, or one; answers where wanted."""
    files, strange = list_passage_files(path)
    problems: list[QuestionProblem] = []
    read = [read_passage(file, max_bytes, answers_required, problems) for file in files]
    found = drop_unusual_questions([each for each in read if each is not None], problems)
    notes = [f"{len(strange):,} files passed over, {', '.join(strange[:3])}"] if strange else []
    return QuestionSource(path, [each.passage for each in found], problems, notes)


def list_passage_files(path: Path) -> tuple[list[Path], list[str]]:
    """Passages in the order of their numbers, and the names of files that are none.

    Operating systems leave files in folders, such as .DS_Store and ._1.txt.
    """
    if path.is_file():
        return [path], []
    everything = [file for file in path.rglob("*") if file.is_file()]
    files = [f for f in everything if f.name.endswith(SUFFIXES) and not f.name.startswith(".")]
    if not files:
        raise ToolkitError(
            f"{path} must hold passages, files that end in .txt, but holds none. Name the folder "
            f"as it was unpacked, or one of train, dev and test in it."
        )
    strange = sorted(str(file.relative_to(path)) for file in set(everything) - set(files))
    return sorted(files, key=sort_key), strange


def sort_key(file: Path) -> tuple[str, int, str]:
    stem = file.name.split(".")[0]
    return str(file.parent), int(stem) if stem.isdecimal() else -1, file.name


def read_passage(
    path: Path, max_bytes: int, wanted: bool, problems: list[QuestionProblem]
) -> RacePassage | None:
    """None where nothing of it can be read."""
    try:
        held = read_json_text(path)
    except InvalidJsonError as error:
        problems.append(error.problem)
        return None
    parts = [held.get(key) if isinstance(held, dict) else None for key in ("article", *LISTS)]
    article, *lists = parts
    questions, options, answers = (it if isinstance(it, list) else [] for it in lists)
    if not isinstance(article, str) or not article.strip() or not questions:
        problems.append(QuestionProblem(path, "1", "a passage must have an article and questions."))
        return None
    if (size := utf8_size(article)) > max_bytes:
        raise ToolkitError(
            f"{path}:1: an article must have at most {max_bytes} bytes, but has {size}. Shorten "
            f"it, or raise --max-line-bytes."
        )
    if len(options) != len(questions) or len(answers) not in (0, len(questions)):
        what = describe_counts(questions, options, answers)
        problems.append(QuestionProblem(path, "1", what, lost=len(questions)))
        return None
    group = path.parent.name
    choices, places = list[ChoiceQuestion](), list[int]()
    for number, question in enumerate(questions, 1):
        try:
            answer = answers[number - 1] if answers else None
            found = parse_question(question, options[number - 1], answer, wanted)
        except ValueError as fault:
            problems.append(QuestionProblem(path, f"question {number}", str(fault)))
            continue
        choices.append(found._replace(name=f"{group}/{path.name} {number}", group=group))
        places.append(number)
    return RacePassage(path, Passage(article, choices=choices), places)


LISTS = ("questions", "options", "answers")


def describe_counts(*lists: Sequence[Any]) -> str:
    counts = ", ".join(f"{len(it)} {name}" for name, it in zip(LISTS, lists, strict=True))
    return f"there must be as many options and answers as questions, but are {counts}."


def parse_question(question: Any, options: Any, answer: Any, wanted: bool) -> ChoiceQuestion:
    """Raises ValueError with what is wrong."""
    if not isinstance(question, str) or not isinstance(options, list) or len(options) < 2:
        raise ValueError("a question must be text and have two options or more.")
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise ValueError("every option must be text, but one is blank or none.")
    texts = tuple(fill_blank(question, option) for option in options)
    return ChoiceQuestion("", texts, parse_answer(answer, len(options), wanted), "")


def parse_answer(answer: Any, options: int, wanted: bool) -> int | None:
    """A is 0; None without an answer."""
    letter = answer.strip().upper() if isinstance(answer, str) else answer
    if letter in (None, "") and not wanted:
        return None
    letters = [chr(ord("A") + number) for number in range(options)]
    if letter not in letters:
        raise ValueError(
            f"the answer must be one of {', '.join(letters)}, but is {str(answer)[:SHOWN]!r}."
        )
    return letters.index(letter)


def fill_blank(question: str, option: str) -> str:
    """The option in the only blank of the question, else after it (Lan et al. 2020, code)."""
    question, option = question.strip(), option.strip()
    if question.count(BLANK) == 1:
        return question.replace(BLANK, option)
    return f"{question} {option}".strip()


def drop_unusual_questions(
    found: Sequence[RacePassage], problems: list[QuestionProblem]
) -> list[RacePassage]:
    """Without questions that have other numbers of options than most."""
    counts = Counter(len(c.options) for each in found for c in each.passage.choices)
    usual = max(counts, key=lambda number: counts[number], default=0)
    kept = []
    for each in found:
        for number, it in zip(each.places, each.passage.choices, strict=True):
            if len(it.options) != usual:
                what = f"must have {usual} options as the others, but has {len(it.options)}."
                problems.append(
                    QuestionProblem(each.path, f"question {number}", f"a question {what}")
                )
        right = [it for it in each.passage.choices if len(it.options) == usual]
        if right:
            kept.append(each._replace(passage=each.passage._replace(choices=right)))
    return kept
