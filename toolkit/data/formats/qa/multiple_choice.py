"""Multiple choice: RACE's folders, and the fields of questions with options in rows.

RACE (Lai et al. 2017) has a JSON file for each passage: article, questions, options (a list for
each question) and answers, as letters. SWAG's csv (Zellers et al. 2018) is read as rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_format
from toolkit.data.formats.format import MAX_QUOTED, MalformedOptions, Problem
from toolkit.data.formats.qa import format as names
from toolkit.data.formats.qa.format import (
    TOKEN_IDS,
    ChoiceQuestion,
    EncodedQuestions,
    Passage,
    QaFormat,
    QuestionSource,
    check_size,
    encode_bytes,
    encode_lines,
    pack_columns,
    read_json_text,
)
from toolkit.data.raw_items import InputField, ItemValues
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.data.text_files import COMPRESSION_SUFFIXES, check_exists
from toolkit.data.tokenizers.tokenizer import Tokenizer

COLUMNS = {
    **dict.fromkeys((names.CONTEXT, names.OPTIONS), TOKEN_IDS),
    names.RECORD: "<u1",
    **dict.fromkeys((names.BACK, names.COUNTS, names.ANSWER), "<i4"),
}
RACE_FOLDERS = {"train": "train", "valid": "dev", "test": "test"}
ENDINGS = (".txt", ".json")
"""Of passages: RACE's own, and that of folders without any such file."""
BLANK = "_"
"""Stands for the answer in a question."""
FIELDS = (
    InputField(("context", "article", "passage", "sent1")),
    InputField(("question",), required=False),
    InputField(("start", "sent2"), required=False),
    InputField(("options", "endings", "choices"), "texts"),
)
"""What a question has in rows: a passage, options, and a question or the start of each option."""
ChoiceItem = tuple[str, list[str], tuple[str, ...]]
"""A passage, its options, and the texts to read after the passage, one for each option."""
LISTS = ("questions", "options", "answers")


def read_race(path: Path, max_bytes: int, *, answers_required: bool) -> QuestionSource:
    """The passages of a file, or of all .txt (else .json) files in a folder and its subfolders,
    without questions that have another number of options than most.
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
    """Passages in the order of their numbers, and the names of other files, such as .DS_Store."""
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


def read_passage(path: Path, max_bytes: int, required: bool, problems: list[Problem]) -> Passage:
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
        what = (
            f"there must be as many options and answers as questions, but there are "
            f"{len(questions)} questions, {len(options)} options, {len(answers)} answers."
        )
        problems.append(Problem(path, "1", what, lost=len(questions)))
        return Passage("")
    group, choices = path.parent.name, list[ChoiceQuestion]()
    answers = answers or [None] * len(questions)
    for number, parts in enumerate(zip(questions, options, answers, strict=True), 1):
        try:
            question = parse_question(*parts, answer_required=required)
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
    letters = [chr(ord("A") + number) for number in range(len(options))]
    answer = answer.strip().upper() if isinstance(answer, str) else answer
    if answer not in letters and (answer_required or answer not in (None, "")):
        raise ValueError(
            f"the answer must be one of {', '.join(letters)}, but is {str(answer)[:MAX_QUOTED]!r}."
        )
    known = letters.index(str(answer)) if answer in letters else None
    return ChoiceQuestion("", texts, known, "")


def fill_blank(question: str, option: str) -> str:
    """The option in the only blank of the question, else after it (Lan et al. 2020, code)."""
    question, option = question.strip(), option.strip()
    if question.count(BLANK) == 1:
        return question.replace(BLANK, option)
    return f"{question} {option}".strip()


def parse_choices(values: ItemValues) -> ChoiceItem:
    """The item with these values of FIELDS."""
    options = [option.strip() for option in values["options"]]
    if len(options) < 2 or not all(options):
        raise ToolkitError(f"an item must have two options or more, none blank, but has {options}.")
    question, start = values.get("question", ""), values.get("start", "").strip()
    completed = tuple(f"{start} {fill_blank(question, it)}".strip() for it in options)
    return values["context"].strip(), options, completed


def encode_choices(passages: Sequence[Passage], tokenizer: Tokenizer) -> EncodedQuestions:
    """Passages, and all options of a question back to back."""
    contexts = encode_lines(tokenizer, (passage.text for passage in passages))
    questions = (question for passage in passages for question in passage.choices)
    texts = (option for question in questions for option in question.options)
    option_ids = iter(encode_lines(tokenizer, texts))
    items, counts = list[dict[str, npt.ArrayLike]](), Counter[str]()
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
            items.append(item if number else {**item, names.CONTEXT: context})
            counts.update(options=len(options), unlabeled=question.answer is None)
    return pack_columns(COLUMNS, items), counts, []


def encode_choice_questions(
    tokenizer: Tokenizer, questions: Sequence[tuple[str, tuple[str, ...]]]
) -> MemoryFolder:
    """A folder of pairs of a passage and the options; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(questions, lambda pair: pair[0]):
        choices = [ChoiceQuestion("", options, None, "") for _, options in group]
        passages.append(Passage(context, choices=choices))
    return MemoryFolder(names.MULTIPLE_CHOICE, tokenizer, encode_choices(passages, tokenizer)[0])


class MultipleChoiceFormat(QaFormat):
    """Base class of questions with several options each."""

    kind, types, encode_passages = names.MULTIPLE_CHOICE, COLUMNS, staticmethod(encode_choices)

    def more_cells(self, entry: JsonObject) -> dict[str, int | str]:
        return {"options": entry["options"], "answers": entry["questions"] - entry["unlabeled"]}


@register_format("race", MalformedOptions())
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
