from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from toolkit.criteria import Classes, Values
from toolkit.data.formats.classification.split import ClassificationSplit
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue.config import GlueConfig
from toolkit.tasks.glue.examples import GlueExamples
from toolkit.tasks.glue.predictions import GlueCollector


@pytest.fixture
def collect(glue):
    """A collector of predictions for a split of a task, updated batch by batch in another order."""

    def call(task, predicted, split="train"):
        source = SplitSource(glue(task), split)
        examples = GlueExamples(GlueConfig(tokens_per_sample=20), source)
        rows = examples.split
        collector, scores = GlueCollector(rows), torch.tensor(predicted, dtype=torch.float32)
        kind = Values if rows.is_regression else Classes
        for ids in (np.array([3, 0]), np.setdiff1d(np.arange(len(rows)), [3, 0]), np.zeros(0, int)):
            batch = examples.collate(ids, None)
            batch_scores = scores[ids] if len(ids) else scores[:1]
            collector.update(batch, {"label": kind(batch_scores, batch.targets)})
        collector.sync(World())
        return collector

    return call


def test_classification_metrics_cover_all_rows(collect):
    right = [[1.0, 0.0], [0.0, 1.0]] * 4
    assert collect("RTE", right).compute() == {
        "accuracy": 1.0,
        "f1": 1.0,
        "matthews": 1.0,
        "score": 1.0,
    }
    metrics = collect("RTE", [[0.0, 1.0]] * 8).compute()
    assert metrics["accuracy"] == metrics["score"] == 0.5 and metrics["matthews"] == 0.0


def test_regression_metrics_cover_all_rows(collect):
    metrics = collect("STS-B", [3.0, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0]).compute()
    want = np.corrcoef([3.8, 0.0] * 4, [3.0, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0])[0, 1]
    assert metrics["pearson"] == pytest.approx(want, abs=1e-12)
    assert metrics["score"] == (metrics["pearson"] + metrics["spearman"]) / 2


def test_events_report_each_class(collect):
    collector = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0]] * 2)
    [table] = collector.tables()
    assert [row[0] for row in table.rows] == ["entailment", "not_entailment"]
    assert collector.events()[-1][1]["counts"] == [[3, 1], [0, 4]]


def test_predictions_are_written_as_class_names(collect, tmp_path):
    collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4).write(tmp_path / "x.tsv")
    lines = (tmp_path / "x.tsv").read_text().splitlines()
    assert lines[:3] == ["index\tprediction", "0\tentailment", "1\tnot_entailment"]


def test_regression_has_neither_tables_nor_events(collect):
    collector = collect("STS-B", [1.0] * 8)
    assert not collector.tables() and not collector.events()
    assert np.isnan(collector.compute()["score"])


def test_unlabeled_rows_do_not_count(collect):
    collector = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0], [1.0, 0.0]])
    collector.split.labeled[-2:] = False
    assert collector.compute()["accuracy"] == 1.0
    assert collector.confusion.tolist() == [[3, 0], [0, 3]]


@pytest.mark.parametrize("task", ["RTE", "STS-B"])
def test_sync_gathers_the_predictions_of_all_ranks(glue, task, monkeypatch):
    predicted = (
        [1, 0, 0, 1, 1, 0, 1, 1] if task == "RTE" else [3.2, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0]
    )
    gathered = [
        json.dumps([ids, [predicted[i] for i in ids]]) for ids in ([0, 3, 6], [1, 2, 4, 5, 7])
    ]
    monkeypatch.setattr(World, "all_gather", lambda world, text: gathered)
    collector = GlueCollector(ClassificationSplit(glue(task), "train"))
    collector.sync(World(size=2))
    assert collector.predicted.tolist() == predicted


def test_three_classes_have_no_binary_f1(collect):
    collector = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4)
    collector.labels = replace(
        collector.labels, classes=["entailment", "neutral", "contradiction"], metrics=["accuracy"]
    )
    assert collector.compute() == {"accuracy": 1.0, "matthews": 1.0, "score": 1.0}
