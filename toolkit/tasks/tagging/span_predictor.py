"""Spans of the task span_tagging for raw sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from toolkit.criteria import Prediction
from toolkit.data.formats.tagging.tokenizer import TaggingTokenizer
from toolkit.metrics.classification import SpanTags, find_spans, mark_sentence_starts
from toolkit.tasks.predictor import ItemBatches, Predictor
from toolkit.tasks.raw_items import Values
from toolkit.tasks.tagging.config import ResolvedTaggingConfig
from toolkit.tasks.tagging.examples import TaggingBatch
from toolkit.tasks.tagging.predictor import TaggedItems, TagPredictor


class PredictedSpan(TypedDict):
    """The words from `start`, counted from 0, to the one before `end`."""

    type: str
    start: int
    end: int
    text: str
    """The words, separated by spaces."""


class SpanPrediction(NamedTuple):
    """The most probable tag of each word, and the spans of these tags."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]
    """Probability of each tag."""
    spans: list[PredictedSpan]

    def to_row(self) -> tuple[str, ...]:
        return (" ".join(self.tags),)


class SpanPredictor(Predictor[list[str], SpanPrediction]):
    """Reads the words of a sentence."""

    fields, columns = TagPredictor.fields, TagPredictor.columns

    def __init__(self, config: ResolvedTaggingConfig, tokenizer: TaggingTokenizer) -> None:
        self._tagger = TagPredictor(config, tokenizer)

    def parse(self, values: Values) -> list[str]:
        return self._tagger.parse(values)

    def start(self, items: Sequence[list[str]]) -> SpanItems:
        return SpanItems(self._tagger.start(items), self._tagger.tokenizer.tables.tags)


class SpanItems(ItemBatches[TaggingBatch, SpanPrediction]):
    """Tagged items, whose tags become spans."""

    def __init__(self, tagged: TaggedItems, tags: Sequence[str]) -> None:
        self.examples, self._tagged = tagged.examples, tagged
        self._tag_ids = {tag: index for index, tag in enumerate(tags)}
        self._span_tags = SpanTags.parse(tags)

    def update(self, batch: TaggingBatch, predictions: Mapping[str, Prediction]) -> None:
        self._tagged.update(batch, predictions)

    def results(self) -> list[SpanPrediction]:
        return [
            SpanPrediction(*tagged, self.spans(tagged.words, tagged.tags))
            for tagged in self._tagged.results()
        ]

    def spans(self, words: Sequence[str], tags: Sequence[str]) -> list[PredictedSpan]:
        """The spans of a sentence with these tags."""
        labels = np.array([self._tag_ids[tag] for tag in tags], np.int64)
        starts = mark_sentence_starts(np.array([len(words)]))
        found = find_spans(labels, starts, self._span_tags)
        return [
            {
                "type": self._span_tags.types[type_id],
                "start": start,
                "end": end,
                "text": " ".join(words[start:end]),
            }
            for start, end, type_id in zip(*(array.tolist() for array in found), strict=True)
        ]
