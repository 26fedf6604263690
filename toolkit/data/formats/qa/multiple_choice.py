"""Multiple choice: RACE's folders, and tables of continuations as SWAG and CODAH have.

RACE (Lai et al. 2017) has a JSON file for each passage: article, questions, options (a list for
each question) and answers, as letters. SWAG's csv (Zellers et al. 2018) has names in its first
line: sent1, sent2, ending0, ..., label; or, in the full version, sent1, sent2, gold-ending,
distractor-0, ... CODAH's tsv (Chen et al. 2019) has none: category, prompt, endings, label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.split import (
    ChoiceQuestion,
    InvalidJsonError,
    Passage,
    QuestionSource,
    read_json_text,
    utf8_size,
)
from toolkit.data.preprocessing.report import MAX_QUOTED, Problem
from toolkit.data.records import read_csv_cells, read_tab_cells
from toolkit.data.text_files import COMPRESSION_SUFFIXES, whole_file

ENDINGS = (".txt", ".json")
"""Of passages: RACE's own, and that of folders without any such file."""
BLANK = "_"
"""Stands for the answer in a question."""
LISTS = ("questions", "options", "answers")


class RacePassage(NamedTuple):
    """A passage, and the number of each of its questions in the file."""

    path: Path
    passage: Passage
    numbers: list[int]


def read_race(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """The passages of a file, or of all .txt (else .json) files in a folder and its subfolders."""
    files, skipped = list_passage_files(path)
    problems: list[Problem] = []
    read = [read_passage(file, max_bytes, answers_required, problems) for file in files]
    passages = drop_unusual_questions([each for each in read if each is not None], problems)
    notes = [f"{len(skipped):,} files skipped, {', '.join(skipped[:3])}"] if skipped else []
    return QuestionSource(path, [each.passage for each in passages], problems, notes)


def list_passage_files(path: Path) -> tuple[list[Path], list[str]]:
    """Passages in the order of their numbers, and the names of other files.

    Operating systems leave files in folders, such as .DS_Store and ._1.txt.
    """
    if path.is_file():
        return [path], []
    everything = [file for file in path.rglob("*") if file.is_file()]
    visible = [file for file in everything if not file.name.startswith(".")]
    suffixes = [tuple(e + suffix for suffix in COMPRESSION_SUFFIXES) for e in ENDINGS]
    found = ([f for f in visible if f.name.endswith(each)] for each in suffixes)
    files = next(filter(None, found), [])
    if not files:
        raise ToolkitError(
            f"{path} must hold passages, files that end in .txt or .json, but holds none. "
            f"Name the folder as it was unpacked, or its subfolder train, dev or test."
        )
    skipped = sorted(str(file.relative_to(path)) for file in set(everything) - set(files))
    return sorted(files, key=sort_key), skipped


def sort_key(file: Path) -> tuple[str, int, str]:
    """Sort key that orders numbered files of a folder by number."""
    stem = file.name.split(".")[0]
    return str(file.parent), int(stem) if stem.isdecimal() else -1, file.name


def read_passage(
    path: Path, max_bytes: int, answers_required: bool, problems: list[Problem]
) -> RacePassage | None:
    """The passage with its well-formed questions; None if the file has none."""
    try:
        content = read_json_text(path)
    except InvalidJsonError as error:
        problems.append(error.problem)
        return None
    content = content if isinstance(content, dict) else {}
    article, lists = content.get("article"), [content.get(name) for name in LISTS]
    questions, options, answers = (it if isinstance(it, list) else [] for it in lists)
    if not isinstance(article, str) or not article.strip() or not questions:
        problems.append(Problem(path, "1", "a passage must have an article and questions."))
        return None
    if (size := utf8_size(article)) > max_bytes:
        raise ToolkitError(
            f"{path}:1: an article must have at most {max_bytes} bytes, but has {size}. Shorten "
            f"it, or raise --max-line-bytes."
        )
    if len(options) != len(questions) or len(answers) not in (0, len(questions)):
        what = describe_counts(questions, options, answers)
        problems.append(Problem(path, "1", what, lost=len(questions)))
        return None
    group, choices, numbers = path.parent.name, list[ChoiceQuestion](), list[int]()
    answers = answers or [None] * len(questions)
    for number, parts in enumerate(zip(questions, options, answers, strict=True), 1):
        try:
            question = parse_question(*parts, answer_required=answers_required)
        except ValueError as error:
            problems.append(Problem(path, f"question {number}", str(error)))
            continue
        choices.append(question._replace(name=f"{group}/{path.name} {number}", group=group))
        numbers.append(number)
    return RacePassage(path, Passage(article, choices=choices), numbers)


def describe_counts(*lists: Sequence[object]) -> str:
    """The message about lists of unequal length."""
    counts = ", ".join(f"{len(it)} {name}" for name, it in zip(LISTS, lists, strict=True))
    return f"there must be as many options and answers as questions, but there are {counts}."


def parse_question(
    question: object, options: object, answer: object, *, answer_required: bool
) -> ChoiceQuestion:
    """Raises ValueError for a malformed question."""
    if not isinstance(question, str) or not isinstance(options, list) or len(options) < 2:
        raise ValueError("a question must be text and have two options or more.")
    if not all(isinstance(option, str) and option.strip() for option in options):
        raise ValueError("every option must be text, but one is blank or none.")
    texts = tuple(fill_blank(question, option) for option in options)
    return ChoiceQuestion("", texts, parse_answer(answer, len(options), answer_required), "")


def parse_answer(answer: object, options: int, required: bool) -> int | None:
    """The index of the answer's letter; None without an answer."""
    letter = answer.strip().upper() if isinstance(answer, str) else answer
    if letter in (None, "") and not required:
        return None
    letters = [chr(ord("A") + number) for number in range(options)]
    if letter not in letters:
        raise ValueError(
            f"the answer must be one of {', '.join(letters)}, but is {str(answer)[:MAX_QUOTED]!r}."
        )
    return letters.index(str(letter))


def fill_blank(question: str, option: str) -> str:
    """The option in the only blank of the question, else after it (Lan et al. 2020, code)."""
    question, option = question.strip(), option.strip()
    if question.count(BLANK) == 1:
        return question.replace(BLANK, option)
    return f"{question} {option}".strip()


def drop_unusual_questions(
    passages: Sequence[RacePassage], problems: list[Problem]
) -> list[RacePassage]:
    """Leave out questions that have another number of options than most."""
    counts = Counter(len(c.options) for each in passages for c in each.passage.choices)
    usual = max(counts, key=lambda number: counts[number], default=0)
    kept = []
    for each in passages:
        choices = []
        for number, choice in zip(each.numbers, each.passage.choices, strict=True):
            if len(choice.options) == usual:
                choices.append(choice)
                continue
            found = len(choice.options)
            what = f"a question must have {usual} options as the others, but has {found}."
            problems.append(Problem(each.path, f"question {number}", what))
        if choices:
            kept.append(each._replace(passage=each.passage._replace(choices=choices)))
    return kept


Fields = Sequence[str]


class SwagLayout(NamedTuple):
    """The number of columns, and the indices of those that are read."""

    columns: int
    first: int
    """The text to continue."""
    second: int | None
    """The start of the next sentence, which every ending continues."""
    endings: tuple[int, ...]
    label: int | None
    gold: bool = False
    """Whether the first ending is the correct one, and others may be absent."""
    group: int | None = None


def read_swag(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """A passage for every row, with one question."""
    is_tsv = ".tsv" in path.suffixes
    read = read_tab_cells if is_tsv else read_csv_cells
    passages, problems, layout = list[Passage](), list[Problem](), None
    for record in read(whole_file(path, max_bytes)):
        number = len(passages) + len(problems)
        blank = "".join(record.values)
        if not (blank.strip() if is_tsv else blank):
            continue
        if layout is None:
            layout = codah_layout(record.values) if is_tsv else parse_header(path, record.values)
            if not is_tsv:
                continue
        try:
            passages.append(parse_row(record.values, layout, number, answers_required))
        except ValueError as error:
            problems.append(Problem(path, str(record.line), str(error)))
    if not passages and not problems:
        raise ToolkitError(f"{path}:1: the file must hold rows, but has none. Give another file.")
    return QuestionSource(path, passages, problems)


def parse_header(path: Path, names: Fields) -> SwagLayout:
    """The layout from the names in the first line."""
    names = [name.strip() for name in names]
    index = {name: number for number, name in enumerate(names)}
    endings = find_numbered_columns(index, "ending")
    gold = not endings and "gold-ending" in index
    if gold:
        endings = (index["gold-ending"], *find_numbered_columns(index, "distractor-"))
    first, second = index.get("sent1"), index.get("sent2")
    if first is None:
        first, second = index.get("startphrase"), None
    if len(endings) < 2 or first is None:
        raise ToolkitError(
            f"{path}:1: the first line must name the columns of SWAG, sent1, sent2, ending0, "
            f"ending1 and so on, or gold-ending and distractor-0, but names "
            f"{', '.join(repr(name[:MAX_QUOTED]) for name in names[:20])}. Give the file as it was "
            f"published."
        )
    label = None if gold else index.get("label")
    return SwagLayout(len(names), first, second, endings, label, gold)


def find_numbered_columns(index: Mapping[str, int], name: str) -> tuple[int, ...]:
    """Columns NAME0, NAME1, ... up to the first that does not exist."""
    columns = (index.get(f"{name}{number}") for number in count())
    return tuple(takewhile(lambda column: column is not None, columns))  # type: ignore[arg-type]


def codah_layout(fields: Fields) -> SwagLayout:
    """The layout from the number of columns: category, prompt, endings, label."""
    last = len(fields) - 1
    return SwagLayout(last + 1, 1, None, tuple(range(2, last)), last, group=0)


def parse_row(fields: Fields, layout: SwagLayout, number: int, answer_required: bool) -> Passage:
    """Raises ValueError for a malformed row."""
    if len(fields) != layout.columns:
        raise ValueError(
            f"a row must have {layout.columns} columns, as the first line, but has {len(fields)}."
        )
    endings = [fields[column].strip() for column in layout.endings]
    if layout.gold:
        endings = [endings[0], *filter(None, endings[1:])]
    if not all(endings) or len(endings) < 2:
        raise ValueError("every ending must be text, but one is blank.")
    if layout.gold:  # moved, because a model could learn that it is always the first
        answer: int | None = (gold := number % len(endings))
        endings = [*endings[1 : gold + 1], endings[0], *endings[gold + 1 :]]
    else:
        answer = parse_label(read_cell(fields, layout.label), len(endings), answer_required)
    start = read_cell(fields, layout.second)
    options = tuple(f"{start} {ending}".strip() for ending in endings)
    question = ChoiceQuestion(str(number), options, answer, read_cell(fields, layout.group))
    return Passage(read_cell(fields, layout.first), choices=(question,))


def read_cell(fields: Fields, column: int | None) -> str:
    """The text of a cell; empty if the table lacks the column."""
    return "" if column is None else fields[column].strip()


def parse_label(label: str, endings: int, required: bool) -> int | None:
    """The label as a number; None without one."""
    if not label and not required:
        return None
    if not label:
        raise ValueError("the row must have an answer in a column label, but has none.")
    if not (label.isascii() and label.isdigit() and int(label) < endings):
        raise ValueError(
            f"the label must be a number from 0 to {endings - 1}, but is {label[:MAX_QUOTED]!r}."
        )
    return int(label)
