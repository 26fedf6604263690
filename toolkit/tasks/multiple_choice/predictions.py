"""Predictions of the task multiple_choice: of a split, also per group, and of raw questions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch.nn import functional as F

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.criteria import Prediction
from toolkit.data.formats.qa.encode_questions import encode_choice_questions
from toolkit.data.formats.qa.multiple_choice import fill_blank
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import to_single_line
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.multiple_choice.examples import (
    OBJECTIVE,
    MultipleChoiceBatch,
    MultipleChoiceConfig,
    MultipleChoiceExamples,
)
from toolkit.tasks.predictions import (
    Predictor,
    Results,
    check_unique_ids,
)
from toolkit.tasks.raw_items import InputField, Values


class ChoiceItem(NamedTuple):
    """A passage with options."""

    context: str
    options: list[str]
    completed: tuple[str, ...]
    """The texts that the model reads after the passage: the question with each option."""


class OptionPrediction(NamedTuple):
    """The most probable option."""

    option: int
    """Its index, from 0."""
    text: str
    probability: float
    probabilities: list[float]
    """Probability of each option."""

    def to_row(self) -> tuple[str, ...]:
        """Index, probability and text of the option."""
        return str(self.option), f"{self.probability:.4f}", to_single_line(self.text)


class MultipleChoiceResults(Results[MultipleChoiceBatch, OptionPrediction]):
    """The options chosen for questions."""

    def __init__(self, examples: MultipleChoiceExamples, items: Sequence[ChoiceItem] = ()) -> None:
        super().__init__(examples)
        self.split, self.items = examples.split, items
        self.predicted = self.make_array(np.int64)
        """Option chosen for each question."""
        self.probabilities = self.make_array(np.float64, int(self.split.option_counts.max()))
        """Probability of each option."""

    def update(self, batch: MultipleChoiceBatch, predictions: Mapping[str, Prediction]) -> None:
        scores, _ = predictions[OBJECTIVE]
        self.store(batch.question_ids, self.predicted, scores.argmax(-1))
        missing = self.probabilities.shape[1] - scores.shape[1]
        probabilities = F.pad(scores.double().softmax(-1), (0, missing))
        self.store(batch.question_ids, self.probabilities, probabilities)

    @cached_property
    def groups(self) -> dict[str, IntArray]:
        """Questions of each group, such as middle and high; empty if there is only one."""
        groups: dict[str, list[int]] = {}
        for number, record in enumerate(self.split.records):
            groups.setdefault(record["group"], []).append(number)
        return {name: np.array(groups[name]) for name in sorted(groups)} if len(groups) > 1 else {}

    def accuracy(self, questions: IntArray) -> float:
        """Fraction of correct answers where they are known; NaN if none is."""
        answers, predicted = self.split.answers[questions], self.predicted[questions]
        known = answers >= 0
        return float(np.mean(answers[known] == predicted[known])) if known.any() else float("nan")

    def metrics(self) -> dict[str, float]:
        if not (self.split.answers >= 0).any():
            return {}
        groups = {f"{name}_accuracy": self.accuracy(ids) for name, ids in self.groups.items()}
        return {"accuracy": self.accuracy(np.arange(len(self.split))), **groups}

    def write(self, path: Path) -> None:
        """RACE in the format of its files, SWAG as row numbers and labels."""
        ids = [record["id"] for record in self.split.records]
        race = any(" " in name for name in ids)
        check_unique_ids(ids, "passage and number" if race else "row")
        format_answers = format_race if race else format_swag
        write_output("--predictions", path, format_answers(ids, self.predicted))

    def records(self) -> list[OptionPrediction]:
        rows = self.items, self.predicted.tolist(), self.probabilities.tolist()
        return [
            OptionPrediction(best, item.options[best], row[best], row[: len(item.options)])
            for item, best, row in zip(*rows, strict=True)
        ]


class MultipleChoicePredictor(Predictor[ChoiceItem, OptionPrediction]):
    """Reads a passage and options, and if there is one a question or the start of each option."""

    fields = (
        InputField(("context", "article", "passage", "sent1")),
        InputField(("question",), required=False),
        InputField(("start", "sent2"), required=False),
        InputField(("options", "endings"), "texts"),
    )
    columns = ("option", "probability", "text")

    def __init__(self, config: MultipleChoiceConfig, tokenizer: Tokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer

    def parse(self, values: Values) -> ChoiceItem:
        options = [option.strip() for option in values["options"]]
        if len(options) < 2 or not all(options):
            raise ToolkitError(
                f"an item must have two options or more, none of them blank, but has {options}."
            )
        question, start = values.get("question", ""), values.get("start", "").strip()
        completed = tuple(f"{start} {fill_blank(question, it)}".strip() for it in options)
        return ChoiceItem(values["context"].strip(), options, completed)

    def start(self, items: Sequence[ChoiceItem]) -> MultipleChoiceResults:
        read = [(item.context, item.completed) for item in items]
        folder = encode_choice_questions(self.tokenizer, read)
        examples = MultipleChoiceExamples(self.config, SplitSource(folder, SPLIT))
        return MultipleChoiceResults(examples, items)


def format_race(ids: Sequence[str], predicted: IntArray) -> str:
    """{"high/12.txt": {"1": "A", "2": "C"}}: passage, question number from 1, letter."""
    passages: dict[str, dict[str, str]] = {}
    for name, option in zip(ids, predicted.tolist(), strict=True):
        passage, _, number = name.rpartition(" ")
        passages.setdefault(passage, {})[number] = chr(ord("A") + option)
    return json.dumps(passages, ensure_ascii=False, indent=1) + "\n"


def format_swag(ids: Sequence[str], predicted: IntArray) -> str:
    """Row, counted from 0 in its file, and label."""
    rows = zip(ids, predicted.tolist(), strict=True)
    return "row,label\n" + "".join(f"{name},{option}\n" for name, option in rows)
