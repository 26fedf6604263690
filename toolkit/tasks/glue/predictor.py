"""Predictions of the task glue on raw texts and pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from toolkit.criteria import Prediction
from toolkit.data.formats.classification.format import encode_raw_texts
from toolkit.data.formats.classification.split import ClassificationTokenizer
from toolkit.data.formats.classification.tables import GLUE_SCHEMAS
from toolkit.data.storage.memory_folder import SPLIT
from toolkit.generation.output import to_single_line
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue.config import GlueConfig
from toolkit.tasks.glue.examples import OBJECTIVE, GlueBatch, GlueExamples
from toolkit.tasks.predictor import ItemBatches, Predictor
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

    def start(self, items: Sequence[Texts]) -> GlueItems:
        return GlueItems(self.config, self.tokenizer, items)


class GlueItems(ItemBatches[GlueBatch, LabelPrediction | NumberPrediction]):
    """Raw texts or pairs as examples, and their predictions."""

    def __init__(
        self, config: GlueConfig, tokenizer: ClassificationTokenizer, items: Sequence[Texts]
    ) -> None:
        self.labels = tokenizer.labels
        folder = encode_raw_texts(tokenizer, items)
        self.examples = GlueExamples(config, SplitSource(folder, SPLIT))
        self.truncated = self.examples.truncated
        self._scores = np.zeros((len(items), self.labels.outputs))
        self._best = np.zeros(len(items), np.int64)

    def update(self, batch: GlueBatch, predictions: Mapping[str, Prediction]) -> None:
        scores, _ = predictions[OBJECTIVE]
        ids = batch.row_ids.cpu().numpy()
        if self.labels.classes:
            self._best[ids] = scores.argmax(-1).cpu().numpy()
            scores = scores.double().softmax(-1)
        self._scores[ids] = scores.double().reshape(len(ids), -1).cpu().numpy()

    def results(self) -> list[LabelPrediction | NumberPrediction]:
        classes = self.labels.classes
        if not classes:
            low, high = self.labels.bounds or (-np.inf, np.inf)
            return [NumberPrediction(value) for [value] in self._scores.clip(low, high).tolist()]
        return [
            LabelPrediction(classes[best], row[best], dict(zip(classes, row, strict=True)))
            for best, row in zip(self._best.tolist(), self._scores.tolist(), strict=True)
        ]
