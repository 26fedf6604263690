"""The answer given to every row of a split: the benchmark's figures and its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.criteria import Prediction, Values
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.formats.classification.submission import write_submission
from toolkit.distributed import World
from toolkit.metrics.classification import (
    CLASSIFICATION_METRICS,
    REGRESSION_METRICS,
    Counts,
    class_metrics,
    confusion_matrix,
)
from toolkit.reporting.tables import Table
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch
from toolkit.tasks.predictions import PredictionCollector


class GlueCollector(PredictionCollector):
    def __init__(self, split: ClassificationSplit) -> None:
        self.split, self.labels = split, split.labels
        self.seen = np.zeros(len(split), bool)
        self.predicted = np.zeros(len(split), np.float64 if split.is_regression else np.int64)
        """Class or number given to each row."""

    def update(self, batch: GlueBatch, predictions: Mapping[str, Prediction]) -> None:
        prediction, rows = predictions[OBJECTIVE], batch.row_ids.cpu().numpy()
        scores, _ = prediction
        values = scores if isinstance(prediction, Values) else scores.argmax(-1)
        self.predicted[rows[rows >= 0]] = values.double().cpu().numpy()[rows >= 0]
        self.seen[rows[rows >= 0]] = True

    def sync(self, world: World) -> None:
        rows = np.flatnonzero(self.seen)
        for text in world.all_gather(json.dumps([rows.tolist(), self.predicted[rows].tolist()])):
            places, values = json.loads(text)
            self.predicted[places], self.seen[places] = values, True
        assert self.seen.all(), "every row is in one batch"

    @cached_property
    def labeled(self) -> tuple[Any, Any]:
        """Right and given answers, where the right ones are known."""
        known = self.split.labeled
        return self.split.answers[known], self.predicted[known]

    def compute(self) -> dict[str, float]:
        """All that the kind of answer has, and the score, the mean of the task's official ones."""
        if not self.split.labeled.any():
            return {}
        known = REGRESSION_METRICS if self.split.is_regression else CLASSIFICATION_METRICS
        found = {name: figure(*self.labeled) for name, figure in known.items()}
        if len(self.labels.classes) > 2:
            del found["f1"]
        return {**found, "score": float(np.mean([found[name] for name in self.labels.metrics]))}

    @cached_property
    def confusion(self) -> Counts:
        """Rows are right classes, columns given ones."""
        return confusion_matrix(*self.labeled, len(self.labels.classes))[:-1]

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 of each class."""
        if self.split.is_regression or not self.split.labeled.any():
            return []
        found = class_metrics(self.confusion, self.labels.classes)
        by_label = Table(
            columns=("class", "precision", "recall", "f1", "rows"),
            rows=[tuple(it) for it in found],
            shared_precision=("precision", "recall", "f1"),
        )
        return [by_label]

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """An event for each class, and one with the table of confusions."""
        if self.split.is_regression or not self.split.labeled.any():
            return []
        names = self.labels.classes
        found = [("class", it._asdict()) for it in class_metrics(self.confusion, names)]
        counts = {"given": names, "is": names, "counts": self.confusion.tolist()}
        return [*found, ("confusion", counts)]

    def write(self, path: Path) -> None:
        write_submission(self.split, self.predicted, path)
