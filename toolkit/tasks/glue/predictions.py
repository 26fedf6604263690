"""The answer given to every row of a split: the benchmark's figures and its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.criteria import Prediction, Values
from toolkit.data.formats.classification.split import LabelledSplit
from toolkit.data.formats.classification.submission import write_answers
from toolkit.distributed import World
from toolkit.metrics.classification import OF_CLASSES, OF_NUMBERS, Counts, by_class, confusion
from toolkit.reporting.tables import Table
from toolkit.tasks.glue.examples import OBJECTIVE, LabelledBatch
from toolkit.tasks.predictions import Answers


class GlueAnswers(Answers):
    def __init__(self, split: LabelledSplit) -> None:
        self.split, self.labels = split, split.labels
        self.heard = np.zeros(len(split), bool)
        self.given = np.zeros(len(split), np.float64 if split.number else np.int64)
        """Class or number given to each row."""

    def hear(self, batch: LabelledBatch, predictions: Mapping[str, Prediction]) -> None:
        prediction, rows = predictions[OBJECTIVE], batch.rows.cpu().numpy()
        scores, _ = prediction
        values = scores if isinstance(prediction, Values) else scores.argmax(-1)
        self.given[rows[rows >= 0]] = values.double().cpu().numpy()[rows >= 0]
        self.heard[rows[rows >= 0]] = True

    def gather(self, world: World) -> None:
        rows = np.flatnonzero(self.heard)
        for text in world.gather(json.dumps([rows.tolist(), self.given[rows].tolist()])):
            places, values = json.loads(text)
            self.given[places], self.heard[places] = values, True
        assert self.heard.all(), "every row is in one batch"

    @cached_property
    def judged(self) -> tuple[Any, Any]:
        """Right and given answers, where the right ones are known."""
        known = self.split.known
        return self.split.answers[known], self.given[known]

    def figures(self) -> dict[str, float]:
        """All that the kind of answer has, and the score, the mean of the task's official ones."""
        if not self.split.known.any():
            return {}
        known = OF_NUMBERS if self.split.number else OF_CLASSES
        found = {name: figure(*self.judged) for name, figure in known.items()}
        if len(self.labels.classes) > 2:
            del found["f1"]
        return {**found, "score": float(np.mean([found[name] for name in self.labels.figures]))}

    @cached_property
    def confusion(self) -> Counts:
        """Rows are right classes, columns given ones."""
        return confusion(*self.judged, len(self.labels.classes))[:-1]

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 of each class."""
        if self.split.number or not self.split.known.any():
            return []
        found = by_class(self.confusion, self.labels.classes)
        by_label = Table(
            columns=("class", "precision", "recall", "f1", "rows"),
            rows=[tuple(it) for it in found],
            together=("precision", "recall", "f1"),
        )
        return [by_label]

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """An event for each class, and one with the table of confusions."""
        if self.split.number or not self.split.known.any():
            return []
        names = self.labels.classes
        found = [("class", it._asdict()) for it in by_class(self.confusion, names)]
        counts = {"given": names, "is": names, "counts": self.confusion.tolist()}
        return [*found, ("confusion", counts)]

    def write(self, path: Path) -> None:
        write_answers(self.split, self.given, path)
