"""Predictions of the task pos_tagging: metrics per tag, and the treebank with predicted tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.criteria import Prediction
from toolkit.data.formats.tagging.split import TaggedSplit, write_predictions
from toolkit.metrics.classification import confusion_matrix, macro_f1
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import Event, PredictionCollector, class_events, class_table
from toolkit.tasks.tagging.examples import OBJECTIVE, TaggingBatch

MAX_CONFUSIONS = 8
"""Confusions in the console's table."""


class TaggingCollector(PredictionCollector[TaggingBatch]):
    """Collects the predicted tags of a split and scores them."""

    def __init__(self, split: TaggedSplit) -> None:
        super().__init__(len(split.types))
        self.split = split
        self.predicted = self.make_array(np.int64)
        """Label of each word."""

    def update(self, batch: TaggingBatch, predictions: Mapping[str, Prediction]) -> None:
        logits, _ = predictions[OBJECTIVE]
        self.store(batch.word_ids, self.predicted, logits.argmax(-1))

    @property
    def tags(self) -> list[str]:
        return self.split.tables.tags

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

    def compute(self) -> dict[str, float]:
        known = bool(self.confusion.any())
        return {"macro_f1": macro_f1(self.confusion, self.true_tags)} if known else {}

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 per tag, and the most frequent confusions, if any."""
        by_tag = class_table(self.confusion, self.true_tags, column="tag", count="words")
        return [table for table in (by_tag, self.confusion_table()) if table.rows]

    def confusion_table(self) -> Table:
        """The most frequent confusions of tags."""
        confusions = self.top_confusions()[:MAX_CONFUSIONS]
        rows = [(true, predicted, count) for count, true, predicted in confusions]
        return Table(columns=("true", "predicted", "words"), rows=rows)

    def top_confusions(self) -> list[tuple[int, str, str]]:
        """Count, true and predicted tag of each kind of error, the most frequent first."""
        names, cells = self.true_tags, np.argwhere(self.confusion).tolist()
        confusions = [(int(self.confusion[t, p]), names[t], names[p]) for t, p in cells if t != p]
        return sorted(confusions, key=lambda row: (-row[0], row[1:]))

    def events(self) -> Sequence[Event]:
        """One event per tag, and one with the confusion matrix."""
        return class_events(self.confusion, self.true_tags, event="tag", predicted=len(self.tags))

    def write(self, path: Path) -> None:
        write_predictions(self.split, [self.tags[label] for label in self.predicted], path)
