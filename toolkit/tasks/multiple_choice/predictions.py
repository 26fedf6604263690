"""The option chosen for every question of a split: accuracy, also of each part, and the files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Prediction
from toolkit.data.formats.qa.split import ChoiceSplit
from toolkit.distributed import World
from toolkit.tasks.multiple_choice.examples import OBJECTIVE, MultipleChoiceBatch
from toolkit.tasks.predictions import PredictionCollector, check_unique_ids

Numbers = npt.NDArray[np.int64]


class MultipleChoiceCollector(PredictionCollector):
    def __init__(self, split: ChoiceSplit) -> None:
        self.split = split
        self.seen = np.zeros(len(split), bool)
        self.predicted = np.zeros(len(split), np.int64)
        """Option chosen for each question."""

    def update(self, batch: MultipleChoiceBatch, predictions: Mapping[str, Prediction]) -> None:
        (scores, _), questions = predictions[OBJECTIVE], batch.question_ids.cpu().numpy()
        real = questions >= 0
        self.predicted[questions[real]] = scores.argmax(-1).cpu().numpy()[real]
        self.seen[questions[real]] = True

    def sync(self, world: World) -> None:
        questions = np.flatnonzero(self.seen)
        for text in world.all_gather(
            json.dumps([questions.tolist(), self.predicted[questions].tolist()])
        ):
            places, values = json.loads(text)
            self.predicted[places], self.seen[places] = values, True
        assert self.seen.all(), "every question is in one batch"

    @cached_property
    def groups(self) -> dict[str, Numbers]:
        """Questions of each part that is told apart, such as middle and high; none where one is."""
        found: dict[str, list[int]] = {}
        for number, record in enumerate(self.split.records):
            found.setdefault(record["group"], []).append(number)
        return {name: np.array(found[name]) for name in sorted(found)} if len(found) > 1 else {}

    def accuracy(self, questions: Numbers) -> float:
        """The share that is right of those that are known; NaN where none is."""
        right, given = self.split.answers[questions], self.predicted[questions]
        known = right >= 0
        return float(np.mean(right[known] == given[known])) if known.any() else float("nan")

    def compute(self) -> dict[str, float]:
        if not (self.split.answers >= 0).any():
            return {}
        parts = {f"{name}_accuracy": self.accuracy(it) for name, it in self.groups.items()}
        return {"accuracy": self.accuracy(np.arange(len(self.split))), **parts}

    def write(self, path: Path) -> None:
        """RACE's as its own files have them, SWAG's as a column beside the rows' numbers."""
        names = [record["id"] for record in self.split.records]
        race = any(" " in name for name in names)
        check_unique_ids(names, "passage and number" if race else "row")
        text = format_race(names, self.predicted) if race else format_swag(names, self.predicted)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ToolkitError(
                f"predictions must be a file that can be written, but {path} is not: "
                f"{error.strerror}. Choose another --predictions."
            ) from error


def format_race(names: Sequence[str], given: Numbers) -> str:
    """{"high/12.txt": {"1": "A", "2": "C"}}: passage, number of the question from 1, letter."""
    found: dict[str, dict[str, str]] = {}
    for name, option in zip(names, given.tolist(), strict=True):
        passage, _, number = name.rpartition(" ")
        found.setdefault(passage, {})[number] = chr(ord("A") + option)
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def format_swag(names: Sequence[str], given: Numbers) -> str:
    """Row, counted from 0 in its file, and label."""
    rows = zip(names, given.tolist(), strict=True)
    return "row,label\n" + "".join(f"{name},{option}\n" for name, option in rows)
