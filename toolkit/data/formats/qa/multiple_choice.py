"""Multiple choice: RACE's folders, and tables of continuations as SWAG and CODAH have.

RACE (Lai et al. 2017) has a JSON file for each passage: article, questions, options (a list for
each question) and answers, as letters. SWAG's csv (Zellers et al. 2018) has names in its first
line: sent1, sent2, ending0, ..., label; or, in the full version, sent1, sent2, gold-ending,
distractor-0, ... CODAH's tsv (Chen et al. 2019) has none: category, prompt, endings, label.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count, groupby, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.data.formats.qa import split as names
from toolkit.data.formats.qa.format import (
    TOKEN_IDS,
    ChoiceQuestion,
    EncodedQuestions,
    Passage,
    QaFormat,
    QaFormatConfig,
    QuestionSource,
    check_size,
    encode_bytes,
    encode_lines,
    read_json_text,
)
from toolkit.data.preprocessing.report import MAX_QUOTED, Problem
from toolkit.data.records import Record, read_csv_cells, read_tab_cells
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.text_files import COMPRESSION_SUFFIXES, check_exists, whole_file
from toolkit.data.tokenizers.tokenizer import Tokenizer

COLUMNS = {
    **dict.fromkeys((names.CONTEXT, names.OPTIONS), TOKEN_IDS),
    names.RECORD: "<u1",
    **dict.fromkeys((names.BACK, names.COUNTS, names.ANSWER), "<i4"),
}
SWAG_FILES = {
    "train": ("train.csv", "train_full.csv"),
    "valid": ("val.csv", "val_full.csv"),
    "test": ("test.csv",),
}
RACE_FOLDERS = {"train": "train", "valid": "dev", "test": "test"}
ENDINGS = (".txt", ".json")
"""Of passages: RACE's own, and that of folders without any such file."""
BLANK = "_"
"""Stands for the answer in a question."""
LISTS = ("questions", "options", "answers")


def read_race(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """The passages of a file, or of all .txt (else .json) files in a folder and its subfolders.

    Questions that have another number of options than most are left out.
    """
    files, skipped = list_passage_files(path)
    problems, passages = list[Problem](), list[Passage]()
    read = [read_passage(file, max_bytes, answers_required, problems) for file in files]
    counts = Counter(len(choice.options) for passage in read for choice in passage.choices)
    usual = max(counts, key=lambda number: counts[number], default=0)
    for file, passage in zip(files, read, strict=True):
        for choice in passage.choices:
            if (found := len(choice.options)) != usual:
                number = choice.name.rpartition(" ")[2]
                what = f"a question must have {usual} options as the others, but has {found}."
                problems.append(Problem(file, f"question {number}", what))
        if choices := [choice for choice in passage.choices if len(choice.options) == usual]:
            passages.append(passage._replace(choices=choices))
    notes = [f"{len(skipped):,} files skipped, {', '.join(skipped[:3])}"] if skipped else []
    return QuestionSource(path, passages, problems, notes)


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
    stems = {file: file.name.split(".")[0] for file in files}
    numbers = {file: int(stem) if stem.isdecimal() else -1 for file, stem in stems.items()}
    skipped = sorted(str(file.relative_to(path)) for file in set(everything) - set(files))
    return sorted(files, key=lambda it: (str(it.parent), numbers[it], it.name)), skipped


def read_passage(
    path: Path, max_bytes: int, answers_required: bool, problems: list[Problem]
) -> Passage:
    """The passage with its well-formed questions, if it has any."""
    if isinstance(content := read_json_text(path), Problem):
        problems.append(content)
        return Passage("")
    content = content if isinstance(content, dict) else {}
    article, lists = content.get("article"), [content.get(name) for name in LISTS]
    questions, options, answers = (it if isinstance(it, list) else [] for it in lists)
    if not isinstance(article, str) or not article.strip() or not questions:
        problems.append(Problem(path, "1", "a passage must have an article and questions."))
        return Passage("")
    check_size(f"{path}:1", "an article", article, max_bytes)
    if len(options) != len(questions) or len(answers) not in (0, len(questions)):
        sizes = zip(LISTS, map(len, (questions, options, answers)), strict=True)
        counts = ", ".join(f"{size} {name}" for name, size in sizes)
        what = f"there must be as many options and answers as questions, but there are {counts}."
        problems.append(Problem(path, "1", what, lost=len(questions)))
        return Passage("")
    group, choices = path.parent.name, list[ChoiceQuestion]()
    answers = answers or [None] * len(questions)
    for number, parts in enumerate(zip(questions, options, answers, strict=True), 1):
        try:
            question = parse_question(*parts, answer_required=answers_required)
        except ValueError as error:
            problems.append(Problem(path, f"question {number}", str(error)))
            continue
        choices.append(question._replace(name=f"{group}/{path.name} {number}", group=group))
    return Passage(article, choices=choices)


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
            if not is_tsv:
                layout = parse_header(record)
                continue
            last = len(record.values) - 1  # category, prompt, endings, label
            layout = SwagLayout(last + 1, 1, None, tuple(range(2, last)), last, group=0)
        try:
            passages.append(parse_row(record.values, layout, number, answers_required))
        except ValueError as error:
            problems.append(Problem(path, str(record.line), str(error)))
    if not passages and not problems:
        raise ToolkitError(f"{path}:1: the file must hold rows, but has none. Give another file.")
    return QuestionSource(path, passages, problems)


def parse_header(record: Record) -> SwagLayout:
    """The layout from the names in the first line."""
    names = [name.strip() for name in record.values]
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
            f"{record.file}:1: the first line must name the columns of SWAG, sent1, sent2, "
            f"ending0, ending1 and so on, or gold-ending and distractor-0, but names "
            f"{', '.join(repr(name[:MAX_QUOTED]) for name in names[:20])}. Give the file as it was "
            f"published."
        )
    label = None if gold else index.get("label")
    return SwagLayout(len(names), first, second, endings, label, gold)


def find_numbered_columns(index: Mapping[str, int], name: str) -> tuple[int, ...]:
    """Columns NAME0, NAME1, ... up to the first that does not exist."""
    columns = (index.get(f"{name}{number}") for number in count())
    return tuple(takewhile(lambda column: column is not None, columns))  # type: ignore[arg-type]


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


def encode_choices(passages: Sequence[Passage], tokenizer: Tokenizer) -> EncodedQuestions:
    """Passages, and all options of a question back to back."""
    contexts = encode_lines(tokenizer, (passage.text for passage in passages))
    questions = (question for passage in passages for question in passage.choices)
    texts = (option for question in questions for option in question.options)
    option_ids = iter(encode_lines(tokenizer, texts))
    encoded = EncodedQuestions(COLUMNS, len(passages))
    for passage, context in zip(passages, contexts, strict=True):
        for number, question in enumerate(passage.choices):
            options = [next(option_ids) for _ in question.options]
            record = json.dumps({"id": question.name, "group": question.group})
            item: dict[str, npt.ArrayLike] = {
                names.BACK: [number],
                names.OPTIONS: np.concatenate(options),
                names.COUNTS: [len(option) for option in options],
                names.ANSWER: [-1 if question.answer is None else question.answer],
                names.RECORD: encode_bytes(record),
            }
            encoded.add(item if number else {**item, names.CONTEXT: context})
            encoded.counts.update(options=len(options), unlabeled=question.answer is None)
    return encoded


def encode_choice_questions(
    tokenizer: Tokenizer, questions: Sequence[tuple[str, tuple[str, ...]]]
) -> MemoryFolder:
    """A folder of pairs of a passage and the options; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(questions, lambda pair: pair[0]):
        choices = [ChoiceQuestion("", options, None, "") for _, options in group]
        passages.append(Passage(context, choices=choices))
    columns = encode_choices(passages, tokenizer).columns
    return MemoryFolder(names.MULTIPLE_CHOICE, tokenizer, columns)


class MultipleChoiceFormat(QaFormat):
    """Base class of questions with several options each."""

    kind, types, encode_passages = names.MULTIPLE_CHOICE, COLUMNS, staticmethod(encode_choices)

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        return {"options": entry["options"], "answers": entry["questions"] - entry["unlabeled"]}


@register_format("race", QaFormatConfig())
class RaceFormat(MultipleChoiceFormat):
    """RACE's folders, with a file for each passage."""

    def list_files(self) -> Mapping[str, list[Path]]:
        """Split -> its folders; trainpref alone may name the folder that has them all."""
        inputs = self.config.inputs
        if set(inputs) == {"train"}:
            folders = {split: Path(inputs["train"], name) for split, name in RACE_FOLDERS.items()}
            if folders["train"].is_dir():
                return {split: [folder] for split, folder in folders.items() if folder.is_dir()}
        return {
            split: [check_exists(f"{split}pref", Path(name)) for name in names.split(",") if name]
            for split, names in inputs.items()
        }

    def read_source(self, split: str, path: Path) -> QuestionSource:
        return read_race(path, self.config.max_line_bytes, answers_required=split != "test")


@register_format("swag", QaFormatConfig())
class SwagFormat(MultipleChoiceFormat):
    """SWAG's csv and CODAH's tsv."""

    published = SWAG_FILES

    def read_source(self, split: str, path: Path) -> QuestionSource:
        return read_swag(path, self.config.max_line_bytes, answers_required=split != "test")
