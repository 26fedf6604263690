"""The tasks of GLUE (Wang et al. 2019): a class or a value for a text or a pair.

N rows of the batch, as many as B   C classes   D width of the states
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_task
from toolkit.config.declared import OF_MODEL, AtLeast, Rate
from toolkit.criteria import IGNORED, Classes, Prediction, Values
from toolkit.data.formats.classification.format import encode_raw_texts
from toolkit.data.formats.classification.split import (
    GLUE_SCHEMAS,
    ClassificationSplit,
    ClassificationTokenizer,
    write_submission,
)
from toolkit.data.loading.batching import compute_fingerprint
from toolkit.data.raw_items import InputField, ItemValues, to_single_line
from toolkit.data.samples.sequence_pairs import (
    SPECIAL_OF_PAIR,
    SPECIAL_OF_SINGLE,
    describe_truncation,
    join_pairs,
    truncate_longest_first,
)
from toolkit.data.storage.data_folder import MemoryFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.metrics.classification import (
    CLASSIFICATION_METRICS,
    REGRESSION_METRICS,
    class_metrics,
    confusion_matrix,
)
from toolkit.models.heads import Features, HeadKind, SentenceHead, build_pooler
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import Examples, SplitSource, TargetBatch, to_inputs
from toolkit.tasks.predictions import (
    Array,
    Event,
    Predictor,
    Results,
    class_events,
    metrics_table,
    parse_items,
)
from toolkit.tasks.task import EncoderFactory, FeatureOptions, Task


@dataclass(frozen=True, kw_only=True)
class GlueConfig(FeatureOptions, section="task"):
    """Options of the task glue."""

    head: HeadKind = field(default="pooled", metadata=OF_MODEL)
    """What the label is predicted from. pooled: tanh of a linear map of the first token's last
    state, as in BERT and Chang et al. 2021; plain: that state itself, as in ConvBERT; gelu: like
    pooled with gelu in place of tanh, as in the ELECTRA and ConvBERT classifiers of Transformers.
    TACO's state concatenates its token and position streams."""
    head_dropout: Rate = field(default=0.1, metadata=OF_MODEL)
    """Dropout rate of the head's inputs."""
    tokens_per_sample: Annotated[int, AtLeast(5, or_zero=True)] = 0
    """Maximum number of tokens per text or pair, special tokens included; longer ones are truncated
    token by token at the end of the longer text. 0 for 128, or the architecture's
    maximum if less."""


OBJECTIVE = "label"


class GlueExamples(Examples[TargetBatch]):
    """The rows of one split, truncated at the end of the longer text."""

    def __init__(self, c: GlueConfig, source: SplitSource) -> None:
        split = ClassificationSplit(source.folder, source.name)
        source.check_labeled(bool(split.labeled.all()), "rows without labels")
        self.split = split
        room = c.tokens_per_sample - (SPECIAL_OF_PAIR if split.second else SPECIAL_OF_SINGLE)
        first = split.first.lengths.astype(np.int64)
        second = split.second.lengths.astype(np.int64) if split.second else np.zeros_like(first)
        self._first, self._second = truncate_longest_first(first, second, room)
        kept = self._first + self._second
        self.lengths = kept + c.tokens_per_sample - room
        self.remark = describe_truncation(first + second, kept)
        self.truncated = int(np.count_nonzero(first + second > kept))
        options = (split.name, c.tokens_per_sample)
        self.fingerprint = compute_fingerprint(split.folder.fingerprint, *options)

    def make_batch(self, ids: IntArray, epoch: int | float | None) -> TargetBatch:
        ids = ids % len(self)
        split, labeled = self.split, self.split.labeled[ids]
        first = split.first.take(ids, self._first[ids])
        second = split.second.take(ids, self._second[ids]) if split.second else None
        texts = join_pairs(first, second, split.vocabulary)
        unknown, dtype = (np.nan, np.float32) if split.is_regression else (IGNORED, np.int64)
        targets = np.where(labeled, split.answers[ids], unknown).astype(dtype)
        return TargetBatch(
            inputs=to_inputs(texts),
            selected=torch.arange(len(ids)) * texts.tokens.shape[1],
            targets=torch.from_numpy(targets),
            weights={OBJECTIVE: float(labeled.sum())},
            sentences=len(ids),
            tokens=int(texts.lengths.sum()),
            ids=torch.from_numpy(ids),
        )


class LabelPrediction(NamedTuple):
    """The most probable class of a text or a pair."""

    label: str
    probability: float
    probabilities: dict[str, float]
    """Class -> its probability."""


class NumberPrediction(NamedTuple):
    """The number of a text or a pair, clipped to the range of the labels."""

    value: float


class GlueResults(Results[TargetBatch, LabelPrediction | NumberPrediction]):
    """The predicted classes or values of texts."""

    def __init__(self, examples: GlueExamples) -> None:
        super().__init__(examples)
        self.split, self.labels = examples.split, examples.split.labels
        self.scores = self.make_array(np.float64, self.labels.outputs)
        """Probability of each class, or the value."""
        self.best = self.make_array(np.int64)
        """The most probable class."""
        self.scored_classes = self.labels.classes if self.split.labeled.any() else []
        """Those that there are metrics of."""

    def update(self, batch: TargetBatch, predictions: Mapping[str, Prediction]) -> None:
        scores = predictions[OBJECTIVE][0].double().reshape(len(batch.targets), -1)
        self.store(batch.ids, self.best, scores.argmax(-1))
        values = scores if self.split.is_regression else scores.softmax(-1)
        self.store(batch.ids, self.scores, values)

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
        if not self.scored_classes:
            return []
        rows = class_metrics(self.confusion, self.scored_classes)
        return [metrics_table(rows, column="class", count="rows")]

    def events(self) -> Sequence[Event]:
        """One event per class, and one with the confusion matrix."""
        classes = self.scored_classes
        return class_events(self.confusion, classes, event="class") if classes else []

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


class GluePredictor(Predictor[tuple[str, ...], LabelPrediction | NumberPrediction]):
    """Reads a text, or two."""

    encode = staticmethod(encode_raw_texts)

    def __init__(self, task: Glue, encoder: EncoderModel, tokenizer: Tokenizer) -> None:
        super().__init__(task, encoder, tokenizer)
        if not isinstance(tokenizer, ClassificationTokenizer):
            raise ToolkitError(
                "Task glue requires a tokenizer with labels. Give build_model labels, or load a "
                "checkpoint."
            )
        labels = tokenizer.labels
        self.columns = ("label", "probability") if labels.classes else ("value",)
        names = (("sentence1", "text1"), ("sentence2", "text2"))
        known = names if labels.pairs else (("sentence", "text"),)
        schema = GLUE_SCHEMAS.get(labels.task)
        official = schema.text_columns if schema else [()] * len(known)
        self.fields = [InputField((*a, *b)) for a, b in zip(known, official, strict=True)]

    def parse(self, values: ItemValues) -> tuple[str, ...]:
        return tuple(to_single_line(values[field.name]).strip() for field in self.fields)


@register_task("glue", GlueConfig())
class Glue(Task[GlueConfig, GlueExamples, TargetBatch]):
    """-log p(class | text), p = softmax(W x + b), x the [CLS] state, pooled or plain.

    For a value y: (w . x + b - y)^2 (Devlin et al. 2019, section 4.1 and code).
    """

    collects_in_training, reports_perplexity = True, False
    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    examples_class, results_class = GlueExamples, GlueResults
    predictor_class, default_tokens = GluePredictor, 128

    def __init__(self, c: GlueConfig, encoder: EncoderModel, make_encoder: EncoderFactory) -> None:
        super().__init__(c)
        labels = make_encoder.sizes["labels"]
        if not labels:
            raise ToolkitError(
                "Task glue requires labeled data. Run toolkit-preprocess with --format glue or "
                "tsv, or in Python give build_model the labels."
            )
        self.is_regression = labels == 1
        self.features = Features(encoder, layer_mixing=c.layer_mixing)
        self.pooler = build_pooler(c.head, encoder.width)
        self.head = SentenceHead(encoder.width, labels, c.head_dropout)

    def scores(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " N"]
    ) -> Float[Tensor, "N C"]:
        """Scores of the classes, or the value, by the state of each row's first token."""
        return self.head(self.pooler(self.features(encoder, inputs, selected)))

    def predict(self, encoder: EncoderModel, batch: TargetBatch) -> dict[str, Prediction]:
        scores, y = self.scores(encoder, batch.inputs, batch.selected), batch.targets
        return {OBJECTIVE: Values(scores[:, 0], y) if self.is_regression else Classes(scores, y)}

    def encode_items(
        self,
        encoder: EncoderModel,
        tokenizer: Tokenizer,
        items: Sequence[object],
        labels: Sequence[object] | None,
    ) -> MemoryFolder:
        predictor = GluePredictor(self, encoder, tokenizer)
        return encode_raw_texts(predictor.tokenizer, parse_items(predictor, items), labels)
