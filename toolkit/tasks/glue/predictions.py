"""Predictions of the task glue: the benchmark's metrics and its submission files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.criteria import Prediction, Values
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.data.formats.classification.tables import write_submission
from toolkit.metrics.classification import (
    CLASSIFICATION_METRICS,
    REGRESSION_METRICS,
    confusion_matrix,
)
from toolkit.reporting.tables import Table
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch
from toolkit.tasks.predictions import (
    Array,
    Event,
    PredictionCollector,
    class_events,
    class_table,
)


class GlueCollector(PredictionCollector[GlueBatch]):
    """Collects the predicted classes or values of a split and scores them."""

    def __init__(self, split: ClassificationSplit) -> None:
        super().__init__(len(split))
        self.split, self.labels = split, split.labels
        self.predicted = self.make_array(np.float64 if split.is_regression else np.int64)
        """Class or value of each row."""

    def update(self, batch: GlueBatch, predictions: Mapping[str, Prediction]) -> None:
        prediction = predictions[OBJECTIVE]
        scores, _ = prediction
        values = scores if isinstance(prediction, Values) else scores.argmax(-1)
        self.store(batch.row_ids, self.predicted, values.double())

    @cached_property
    def labeled(self) -> tuple[Array, Array]:
        """True and predicted labels of the rows with known labels."""
        known = self.split.labeled
        return self.split.answers[known], self.predicted[known]

    def compute(self) -> dict[str, float]:
        """All metrics of the kind of label, and `score`, the mean of the task's official ones."""
        if not self.split.labeled.any():
            return {}
        known = REGRESSION_METRICS if self.split.is_regression else CLASSIFICATION_METRICS
        values = {name: metric(*self.labeled) for name, metric in known.items()}
        if len(self.labels.classes) > 2:
            del values["f1"]
        return {**values, "score": float(np.mean([values[name] for name in self.labels.metrics]))}

    @cached_property
    def confusion(self) -> IntArray:
        """Rows are true classes, columns predicted ones."""
        return confusion_matrix(*self.labeled, len(self.labels.classes))

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 per class."""
        if self.split.is_regression or not self.split.labeled.any():
            return []
        return [class_table(self.confusion, self.labels.classes, column="class", count="rows")]

    def events(self) -> Sequence[Event]:
        """One event per class, and one with the confusion matrix."""
        if self.split.is_regression or not self.split.labeled.any():
            return []
        return class_events(self.confusion, self.labels.classes, event="class")

    def write(self, path: Path) -> None:
        write_submission(self.split, self.predicted, path)
