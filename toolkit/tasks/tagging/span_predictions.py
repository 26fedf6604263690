"""Predictions of the task span_tagging: metrics per type of span, and a file for conlleval."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.data.formats.tagging.split import TaggedSplit, write_predictions
from toolkit.metrics.classification import (
    ClassMetrics,
    SpanTags,
    compute_span_metrics,
    find_spans,
    mark_sentence_starts,
)
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import Event, metrics_table
from toolkit.tasks.tagging.predictions import TaggingCollector


class SpanCollector(TaggingCollector):
    """Sentences in which the tag of a word is unknown are left out of the metrics of spans."""

    def __init__(self, split: TaggedSplit) -> None:
        super().__init__(split)
        self.span_tags = SpanTags.parse(self.true_tags)

    @cached_property
    def span_metrics(self) -> list[ClassMetrics]:
        """Those of all spans first, then those of each type; empty if no sentence has tags."""
        lengths, true = self.split.lengths, self.true_labels
        unknown = np.bincount(
            np.repeat(np.arange(len(lengths)), lengths), true == -2, minlength=len(lengths)
        ).astype(bool)
        words = ~np.repeat(unknown, lengths)
        starts = mark_sentence_starts(lengths[~unknown])
        true_spans = find_spans(true[words], starts, self.span_tags)
        predicted_spans = find_spans(self.predicted[words], starts, self.span_tags)
        if not words.any():
            return []
        return compute_span_metrics(true_spans, predicted_spans, self.span_tags.types)

    def compute(self) -> dict[str, float]:
        if not self.span_metrics:
            return {}
        overall = self.span_metrics[0]
        return {"precision": overall.precision, "recall": overall.recall, "f1": overall.f1}

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 per type, and the most frequent confusions of tags, if any."""
        by_type = metrics_table(self.span_metrics[1:], column="type", count="spans")
        return [table for table in (by_type, self.confusion_table()) if table.rows]

    def events(self) -> Sequence[Event]:
        """One event per type, and those of the tags."""
        return [*(("type", row._asdict()) for row in self.span_metrics[1:]), *super().events()]

    def write(self, path: Path) -> None:
        tags = [self.tags[label] for label in self.predicted]
        write_predictions(self.split, tags, path, for_conlleval=True)
