"""The tag given to every word of a split: figures of each tag, and the treebank filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.criteria import Prediction
from toolkit.data.formats.tagging.split import TaggedSplit
from toolkit.data.formats.tagging.write_predictions import write_predictions
from toolkit.distributed import World
from toolkit.metrics.classification import Counts, class_metrics, confusion_matrix, macro_f1
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import PredictionCollector
from toolkit.tasks.tagging.examples import OBJECTIVE, TaggingBatch

UNPREDICTED = -1
UNSEEN = "(unseen)"
MAX_CONFUSIONS = 8
"""Confusions that the table for people shows."""


class TaggingCollector(PredictionCollector):
    def __init__(self, split: TaggedSplit) -> None:
        self.split = split
        self.predicted = np.full(len(split.types), UNPREDICTED, np.int64)
        """Label given to each word of the split."""

    def update(self, batch: TaggingBatch, predictions: Mapping[str, Prediction]) -> None:
        logits, _ = predictions[OBJECTIVE]
        words, given = batch.word_ids.cpu(), logits.argmax(-1).cpu()
        real = words >= 0
        self.predicted[words[real].numpy()] = given[real].numpy()

    def sync(self, world: World) -> None:
        for text in world.all_gather(json.dumps(self.predicted.tolist())):
            self.predicted = np.maximum(self.predicted, np.array(json.loads(text), np.int64))
        assert (self.predicted != UNPREDICTED).all(), "every word is in one chunk of one batch"

    @property
    def tags(self) -> list[str]:
        return self.split.tables.tags

    @cached_property
    def confusion(self) -> Counts:
        """Rows are true tags, the last one tags that training does not have; columns given ones."""
        scored = self.split.tags > -2
        return confusion_matrix(self.split.tags[scored], self.predicted[scored], len(self.tags))

    def compute(self) -> dict[str, float]:
        known = bool(self.confusion.any())
        return {"macro_f1": macro_f1(self.confusion, self.tags)} if known else {}

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 of each tag, and the most frequent confusions; none without."""
        found = class_metrics(self.confusion, self.tags)
        by_tag = Table(
            columns=("tag", "precision", "recall", "f1", "words"),
            rows=[tuple(it) for it in found],
            shared_precision=("precision", "recall", "f1"),
        )
        rows = [
            (gold, given, count) for count, gold, given in self.top_confusions()[:MAX_CONFUSIONS]
        ]
        tables = [by_tag, Table(columns=("is", "given", "words"), rows=rows)]
        return [table for table in tables if table.rows]

    def top_confusions(self) -> list[tuple[int, str, str]]:
        """How often each tag was taken for each other one, the most frequent first."""
        names = [*self.tags, UNSEEN]
        places = np.argwhere(self.confusion)
        found = [
            (int(self.confusion[g, p]), names[g], names[p]) for g, p in places.tolist() if g != p
        ]
        return sorted(found, key=lambda it: (-it[0], it[1:]))

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """An event for each tag, and one with the whole table of confusions."""
        found = [("tag", it._asdict()) for it in class_metrics(self.confusion, self.tags)]
        unseen = bool(self.confusion[-1].any())
        names = [*self.tags, UNSEEN] if unseen else self.tags
        table = self.confusion[: len(names)].tolist()
        return [*found, ("confusion", {"given": self.tags, "is": names, "counts": table})]

    def write(self, path: Path) -> None:
        write_predictions(self.split, [self.tags[label] for label in self.predicted], path)
