"""Predictions of the task multiple_choice: accuracy, also per group, and prediction files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.files import write_output
from toolkit.criteria import Prediction
from toolkit.data.formats.qa.split import ChoiceSplit
from toolkit.tasks.multiple_choice.examples import OBJECTIVE, MultipleChoiceBatch
from toolkit.tasks.predictions import (
    PredictionCollector,
    check_unique_ids,
)


class MultipleChoiceCollector(PredictionCollector[MultipleChoiceBatch]):
    """Collects the options chosen in a split and scores them."""

    def __init__(self, split: ChoiceSplit) -> None:
        super().__init__(len(split))
        self.split = split
        self.predicted = self.make_array(np.int64)
        """Option chosen for each question."""

    def update(self, batch: MultipleChoiceBatch, predictions: Mapping[str, Prediction]) -> None:
        scores, _ = predictions[OBJECTIVE]
        self.store(batch.question_ids, self.predicted, scores.argmax(-1))

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

    def compute(self) -> dict[str, float]:
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
