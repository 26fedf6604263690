"""Predictions of the task glue: metrics and files of the benchmark, and labels of raw texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.criteria import Prediction
from toolkit.data.formats.classification.format import encode_raw_texts
from toolkit.data.formats.classification.split import ClassificationTokenizer
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS, write_submission
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.generation.output import to_single_line
from toolkit.metrics.classification import (
    CLASSIFICATION_METRICS,
    REGRESSION_METRICS,
    confusion_matrix,
)
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch, GlueConfig, GlueExamples
from toolkit.tasks.predictions import (
    Array,
    Event,
    Predictor,
    Results,
    class_events,
    class_table,
)
from toolkit.tasks.raw_items import InputField, Values

Texts = tuple[str, ...]


class LabelPrediction(NamedTuple):
    """The most probable class of a text or a pair."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Class -> its probability."""

    def to_row(self) -> tuple[str, ...]:
        """Label and probability as text."""
        return self.label, f"{self.probability:.4f}"


class NumberPrediction(NamedTuple):
    """The number of a text or a pair, clipped to the range of the labels."""

    value: float

    def to_row(self) -> tuple[str, ...]:
        """The number as text."""
        return (f"{self.value:.6g}",)


class GlueResults(Results[GlueBatch, LabelPrediction | NumberPrediction]):
    """The predicted classes or values of texts."""

    def __init__(self, examples: GlueExamples) -> None:
        super().__init__(examples)
        self.split, self.labels = examples.split, examples.split.labels
        self.scores = self.make_array(np.float64, self.labels.outputs)
        """Probability of each class, or the value."""
        self.best = self.make_array(np.int64)
        """The most probable class."""

    def update(self, batch: GlueBatch, predictions: Mapping[str, Prediction]) -> None:
        scores = predictions[OBJECTIVE][0].double().reshape(len(batch.row_ids), -1)
        self.store(batch.row_ids, self.best, scores.argmax(-1))
        values = scores if self.split.is_regression else scores.softmax(-1)
        self.store(batch.row_ids, self.scores, values)

    @property
    def predicted(self) -> Array:
        """Class or value of each text."""
        return self.scores[:, 0] if self.split.is_regression else self.best

    @cached_property
    def labeled(self) -> tuple[Array, Array]:
        """True and predicted labels of the rows with known labels."""
        known = self.split.labeled
        return self.split.answers[known], self.predicted[known]

    def metrics(self) -> dict[str, float]:
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

    def records(self) -> list[LabelPrediction | NumberPrediction]:
        classes = self.labels.classes
        if not classes:
            low, high = self.labels.bounds or (-np.inf, np.inf)
            return [NumberPrediction(value) for [value] in self.scores.clip(low, high).tolist()]
        return [
            LabelPrediction(classes[best], row[best], dict(zip(classes, row, strict=True)))
            for best, row in zip(self.best.tolist(), self.scores.tolist(), strict=True)
        ]


class GluePredictor(Predictor[Texts, LabelPrediction | NumberPrediction]):
    """Reads a text, or two."""

    def __init__(self, config: GlueConfig, tokenizer: ClassificationTokenizer) -> None:
        self.config, self.tokenizer = config, tokenizer
        labels = tokenizer.labels
        self.columns = ("label", "probability") if labels.classes else ("value",)
        names = (("sentence1", "text1"), ("sentence2", "text2"))
        known = names if labels.pairs else (("sentence", "text"),)
        schema = GLUE_SCHEMAS.get(labels.task)
        official = schema.text_columns if schema else [()] * len(known)
        self.fields = [InputField((*a, *b)) for a, b in zip(known, official, strict=True)]

    def parse(self, values: Values) -> Texts:
        return tuple(to_single_line(values[field.name]).strip() for field in self.fields)

    def start(self, items: Sequence[Texts]) -> GlueResults:
        folder = encode_raw_texts(self.tokenizer, items)
        return GlueResults(GlueExamples(self.config, SplitSource(folder, SPLIT)))
