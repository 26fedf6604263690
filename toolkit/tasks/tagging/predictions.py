"""A tag for every word (Dufter et al. 2020, section 2.6): parts of speech, or tags of spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.arrays import IntArray
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import register_task
from toolkit.criteria import Classes, Prediction
from toolkit.data.formats.tagging.split import TaggedSplit, TaggedWords, write_predictions
from toolkit.data.raw_items import InputField
from toolkit.metrics.classification import (
    ClassMetrics,
    SpanTags,
    class_metrics,
    compute_span_metrics,
    confusion_matrix,
    find_spans,
    macro_f1,
    mark_sentence_starts,
)
from toolkit.models.heads import Features
from toolkit.models.interface import ArchConfig, EncoderModel, Inputs
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.predictions import SCORES, Event, Predictor, Results, class_events, metrics_table
from toolkit.tasks.tagging.examples import (
    DEFAULT_TOKENS,
    OBJECTIVE,
    PosTaggingConfig,
    ResolvedTaggingConfig,
    TaggingBatch,
    TaggingExamples,
)
from toolkit.tasks.task import EncoderFactory, Metric, Ratio, Task, resolve_length

MAX_CONFUSIONS = 8
"""Confusions in the console's table."""


class TagPrediction(NamedTuple):
    """The most probable tag of each word."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    """Probability of each tag."""


class SpanPrediction(NamedTuple):
    """The most probable tag of each word, and the spans of these tags."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    """Probability of each tag."""
    spans: list[JsonObject]
    """Type and text of each, and its words: from `start`, counted from 0, to that before `end`."""


class TaggingResults(Results[TaggingBatch, TagPrediction | SpanPrediction]):
    """The predicted tag of each word."""

    for_conlleval: ClassVar[bool] = False
    """Whether files of columns get the predicted tags in addition to the true ones."""

    def __init__(self, examples: TaggingExamples) -> None:
        self.split: Any = examples.split
        """The sentences, with true tags if they are a `TaggedSplit`."""
        self.tags = self.split.tables.tags
        super().__init__(examples, len(self.split.types))
        self.predicted = self.make_array(np.int64)
        """Label of each word."""
        self.probabilities = self.make_array(np.float64)
        """Probability of this label."""

    def update(self, batch: TaggingBatch, predictions: Mapping[str, Prediction]) -> None:
        logits, _ = predictions[OBJECTIVE]
        labels = logits.argmax(-1, keepdim=True)
        self.store(batch.ids, self.predicted, labels[:, 0])
        probabilities = logits.double().softmax(-1).gather(-1, labels)
        self.store(batch.ids, self.probabilities, probabilities[:, 0])

    def records(self) -> Sequence[TagPrediction | SpanPrediction]:
        words, edges = self.split.words, np.append(0, np.cumsum(self.split.lengths))
        every = [words[index] for index in self.split.types.tolist()]
        tags, probabilities = self.predicted_tags, self.probabilities.tolist()
        return [
            TagPrediction(every[start:end], tags[start:end], probabilities[start:end])
            for start, end in pairwise(edges.tolist())
        ]

    @property
    def predicted_tags(self) -> list[str]:
        """The tag of each word."""
        return [self.tags[label] for label in self.predicted.tolist()]

    @cached_property
    def true_tags(self) -> list[str]:
        """Known tags, then those of the split that the training data does not have."""
        return list(dict.fromkeys([*self.tags, *self.split.unseen_tags]))

    @cached_property
    def true_labels(self) -> IntArray:
        """Index in `true_tags` of each word's tag; -2 if it is unknown."""
        index = {tag: label for label, tag in enumerate(self.true_tags)}
        labels = self.split.tags.copy()
        labels[labels == -1] = [index[tag] for tag in self.split.unseen_tags]
        return labels

    @cached_property
    def confusion(self) -> IntArray:
        """Rows are true tags, columns predicted ones; both are `true_tags`."""
        scored = self.true_labels >= 0
        labels, predicted = self.true_labels[scored], self.predicted[scored]
        return confusion_matrix(labels, predicted, len(self.true_tags))

    def metrics(self) -> dict[str, float]:
        known = bool(self.confusion.any())
        return {"macro_f1": macro_f1(self.confusion, self.true_tags)} if known else {}

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 per tag, and the most frequent confusions, if any."""
        rows = class_metrics(self.confusion, self.true_tags)
        by_tag = metrics_table(rows, column="tag", count="words")
        return [table for table in (by_tag, self.confusion_table()) if table.rows]

    def confusion_table(self) -> Table:
        """The most frequent confusions of tags."""
        names, cells = self.true_tags, np.argwhere(self.confusion).tolist()
        rows = [(names[t], names[p], int(self.confusion[t, p])) for t, p in cells if t != p]
        rows.sort(key=lambda row: (-row[2], row[:2]))
        return Table(columns=("true", "predicted", "words"), rows=rows[:MAX_CONFUSIONS])

    def events(self) -> Sequence[Event]:
        """One event per tag, and one with the confusion matrix."""
        return class_events(self.confusion, self.true_tags, event="tag", predicted=len(self.tags))

    def write(self, path: Path) -> None:
        write_predictions(self.split, self.predicted_tags, path, for_conlleval=self.for_conlleval)


class SpanResults(TaggingResults):
    """Sentences in which the tag of a word is unknown are left out of the metrics of spans."""

    for_conlleval = True

    @cached_property
    def span_metrics(self) -> list[ClassMetrics]:
        """Those of all spans first, then those of each type; empty if no sentence has tags."""
        lengths, true = self.split.lengths, self.true_labels
        span_tags = SpanTags.parse(self.true_tags)
        unknown = np.bincount(
            np.repeat(np.arange(len(lengths)), lengths), true == -2, minlength=len(lengths)
        ).astype(bool)
        words = ~np.repeat(unknown, lengths)
        starts = mark_sentence_starts(lengths[~unknown])
        found, expected = (
            find_spans(labels[words], starts, span_tags) for labels in (self.predicted, true)
        )
        return compute_span_metrics(expected, found, span_tags.types) if words.any() else []

    def metrics(self) -> dict[str, float]:
        return {name: getattr(of_all, name) for of_all in self.span_metrics[:1] for name in SCORES}

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 per type, and the most frequent confusions of tags, if any."""
        by_type = metrics_table(self.span_metrics[1:], column="type", count="spans")
        return [table for table in (by_type, self.confusion_table()) if table.rows]

    def events(self) -> Sequence[Event]:
        """One event per type, and those of the tags."""
        return [*(("type", row._asdict()) for row in self.span_metrics[1:]), *super().events()]

    def records(self) -> Sequence[SpanPrediction]:
        records = [SpanPrediction(*it[:3], []) for it in super().records()]
        lengths, tags = self.split.lengths, SpanTags.parse(self.tags)
        found = find_spans(self.predicted, mark_sentence_starts(lengths), tags)
        owners = np.searchsorted(np.cumsum(lengths), found.starts, "right")
        offsets = (np.cumsum(lengths) - lengths)[owners]
        rows = owners, found.starts - offsets, found.ends - offsets, found.type_ids
        for owner, start, end, kind in zip(*(row.tolist() for row in rows), strict=True):
            text = " ".join(records[owner].words[start:end])
            span = {"type": tags.types[kind], "start": start, "end": end, "text": text}
            records[owner].spans.append(span)
        return records


class TagPredictor(Predictor[list[str], TagPrediction | SpanPrediction]):
    """Reads the words of a sentence. Long sentences are tagged in chunks, never truncated."""

    fields = (InputField(("words", "tokens", "text", "sentence"), "words"),)
    columns = ("tags",)

    def start(self, items: Sequence[list[str]]) -> TaggingResults:
        words = TaggedWords.from_words(self.tokenizer, items)
        return self.task.results(TaggingExamples(self.config, words, row_multiple=1))


@register_task("pos_tagging", PosTaggingConfig())
class PosTagging(Task[PosTaggingConfig, TaggingExamples, TaggingBatch]):
    """-log p(tag of word n | its sentence), p = softmax(W h_n + b).

    h_n is the state of the word's first subword, or the mean of those of all its subwords. If the
    encoder reads whole words, h_n is the word's own state.
    """

    coefficients: Mapping[str, float] = {OBJECTIVE: 1.0}
    results_class: ClassVar[type[TaggingResults]] = TaggingResults
    predictor_class = TagPredictor

    def __init__(
        self, c: PosTaggingConfig, encoder: EncoderModel, make_encoder: EncoderFactory
    ) -> None:
        super().__init__(c)
        self.features = Features(encoder, layer_mixing=c.layer_mixing)
        self.head = nn.Linear(encoder.width, make_encoder.sizes["tags"])
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def resolve_for(
        cls, config: PosTaggingConfig, arch: ArchConfig | EncoderModel
    ) -> ResolvedTaggingConfig:
        tokens = resolve_length(config, arch).tokens_per_sample or DEFAULT_TOKENS
        lengths = {"tokens_per_sample": tokens, "fixed_length": arch.fixed_length or 0}
        return ResolvedTaggingConfig(**{**asdict(config), **lengths})

    @classmethod
    def examples(cls, config: PosTaggingConfig, source: SplitSource) -> TaggingExamples:
        assert isinstance(config, ResolvedTaggingConfig), "resolve_for makes one"
        split = TaggedSplit(source.folder, source.name)
        return TaggingExamples(config, split, row_multiple=source.row_multiple)

    def scores(
        self,
        encoder: EncoderModel,
        inputs: Inputs,
        selected: Int[Tensor, " P"],
        word_index: Int[Tensor, " P"] | None = None,
        words: int = 0,
    ) -> Float[Tensor, "N C"]:
        """Scores of the tags of selected subwords, or of words by the mean of their subwords."""
        states = self.features(encoder, inputs, selected)  # (P, D)
        if word_index is not None:
            states = mean_per_word(states, word_index, words)  # (P, D) -> (N, D)
        return self.head(states)

    def predict(self, encoder: EncoderModel, batch: TaggingBatch) -> dict[str, Prediction]:
        words = batch.word_index, len(batch.targets)
        scores = self.scores(encoder, batch.inputs, batch.selected, *words)
        return {OBJECTIVE: Classes(scores, batch.targets)}

    def metrics(
        self, predictions: Mapping[str, Prediction], batch: TaggingBatch
    ) -> Mapping[str, Metric]:
        """Accuracy for all words, for those out of vocabulary, and for ambiguous ones.

        A word whose tag is unseen in training counts as wrong; one without a known tag is omitted.
        """
        logits, targets = predictions[OBJECTIVE]
        correct, real = logits.argmax(-1) == targets, batch.ids >= 0  # none of an idle rank
        groups = {
            "accuracy": batch.scored,
            "oov_accuracy": batch.oov,
            "ambiguous_accuracy": batch.ambiguous,
        }
        return {
            name: Ratio((correct & group & real).sum().float(), (group & real).sum().float())
            for name, group in groups.items()
        }


@register_task("span_tagging", PosTaggingConfig())
class SpanTagging(PosTagging):
    """Spans of words, such as named entities and chunks, from tags such as O, B-NP and I-NP.

    The model and its loss are those of `pos_tagging`; metrics and predictions are spans.
    """

    collects_in_training = True
    results_class = SpanResults

    @classmethod
    def examples(cls, config: PosTaggingConfig, source: SplitSource) -> TaggingExamples:
        examples = super().examples(config, source)
        SpanTags.parse(examples.split.tables.tags)  # raises for tags of another kind
        return examples


def mean_per_word(
    states: Float[Tensor, "P D"], word_index: Tensor, words: int
) -> Float[Tensor, "N D"]:
    """The mean of each word's subwords."""
    sums = sum_per_word(states, word_index, words)
    ones = torch.ones_like(word_index, dtype=torch.float32)
    counts = sum_per_word(ones[:, None], word_index, words).clamp(min=1)
    return sums / counts.to(sums.dtype)


def sum_per_word(
    states: Float[Tensor, "P D"], word_index: Tensor, words: int
) -> Float[Tensor, "N D"]:
    """The sum of each word's subwords; in a fixed order on GPUs too, where index_add has none."""
    zeros = states.new_zeros(words, states.shape[1])
    if states.device.type == "cpu":
        return zeros.index_add(0, word_index, states)
    return zeros.index_put((word_index,), states, accumulate=True)
