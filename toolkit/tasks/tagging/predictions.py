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
from toolkit.data.formats.tagging.write_predictions import write_filled
from toolkit.distributed import World
from toolkit.metrics.classification import Counts, by_class, confusion, macro_f1
from toolkit.reporting.tables import Table
from toolkit.tasks.predictions import Answers
from toolkit.tasks.tagging.examples import OBJECTIVE, TaggedBatch

NOBODY = -1
UNSEEN = "(unseen)"
SHOWN = 8
"""Confusions that the table for people shows."""


class TaggingAnswers(Answers):
    def __init__(self, split: TaggedSplit) -> None:
        self.split = split
        self.given = np.full(len(split.types), NOBODY, np.int64)
        """Label given to each word of the split."""

    def hear(self, batch: TaggedBatch, predictions: Mapping[str, Prediction]) -> None:
        logits, _ = predictions[OBJECTIVE]
        words, given = batch.words.cpu(), logits.argmax(-1).cpu()
        real = words >= 0
        self.given[words[real].numpy()] = given[real].numpy()

    def gather(self, world: World) -> None:
        for text in world.gather(json.dumps(self.given.tolist())):
            self.given = np.maximum(self.given, np.array(json.loads(text), np.int64))
        assert (self.given != NOBODY).all(), "every word is in one chunk of one batch"

    @property
    def tags(self) -> list[str]:
        return self.split.tables.tags

    @cached_property
    def confusion(self) -> Counts:
        """Rows are true tags, the last one tags that training does not have; columns given ones."""
        scored = self.split.tags > -2
        return confusion(self.split.tags[scored], self.given[scored], len(self.tags))

    def figures(self) -> dict[str, float]:
        known = bool(self.confusion.any())
        return {"macro_f1": macro_f1(self.confusion, self.tags)} if known else {}

    def tables(self) -> Sequence[Table]:
        """Precision, recall and F1 of each tag, and the most frequent confusions; none without."""
        found = by_class(self.confusion, self.tags)
        by_tag = Table(
            columns=("tag", "precision", "recall", "f1", "words"),
            rows=[tuple(it) for it in found],
            together=("precision", "recall", "f1"),
        )
        rows = [(gold, given, count) for count, gold, given in self.mistakes()[:SHOWN]]
        tables = [by_tag, Table(columns=("is", "given", "words"), rows=rows)]
        return [table for table in tables if table.rows]

    def mistakes(self) -> list[tuple[int, str, str]]:
        """How often each tag was taken for each other one, the most frequent first."""
        names = [*self.tags, UNSEEN]
        places = np.argwhere(self.confusion)
        found = [
            (int(self.confusion[g, p]), names[g], names[p]) for g, p in places.tolist() if g != p
        ]
        return sorted(found, key=lambda it: (-it[0], it[1:]))

    def events(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """An event for each tag, and one with the whole table of confusions."""
        found = [("tag", it._asdict()) for it in by_class(self.confusion, self.tags)]
        unseen = bool(self.confusion[-1].any())
        names = [*self.tags, UNSEEN] if unseen else self.tags
        table = self.confusion[: len(names)].tolist()
        return [*found, ("confusion", {"given": self.tags, "is": names, "counts": table})]

    def write(self, path: Path) -> None:
        write_filled(self.split, [self.tags[label] for label in self.given], path)
