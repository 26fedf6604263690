from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from toolkit.criteria import Classes, Values
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue import GlueConfig, GlueExamples, GlueResults


@pytest.fixture
def collect(glue):
    """Results for a split of a task, updated batch by batch in another order."""

    def call(task, predicted, split="train"):
        source = SplitSource(glue(task), split)
        examples = GlueExamples(GlueConfig(tokens_per_sample=20), source)
        rows = examples.split
        results, scores = GlueResults(examples), torch.tensor(predicted, dtype=torch.float32)
        kind = Values if rows.is_regression else Classes
        for ids in (np.array([3, 0]), np.setdiff1d(np.arange(len(rows)), [3, 0]), np.zeros(0, int)):
            batch = examples.collate(ids, None)
            batch_scores = scores[ids] if len(ids) else scores[:1]
            results.update(batch, {"label": kind(batch_scores, batch.targets)})
        results.sync(World())
        return results

    return call


def test_classification_metrics_cover_all_rows(collect):
    right = [[1.0, 0.0], [0.0, 1.0]] * 4
    assert collect("RTE", right).metrics() == {
        "accuracy": 1.0,
        "f1": 1.0,
        "matthews": 1.0,
        "score": 1.0,
    }
    metrics = collect("RTE", [[0.0, 1.0]] * 8).metrics()
    assert metrics["accuracy"] == metrics["score"] == 0.5 and metrics["matthews"] == 0.0


def test_regression_metrics_cover_all_rows(collect):
    metrics = collect("STS-B", [3.0, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0]).metrics()
    want = np.corrcoef([3.8, 0.0] * 4, [3.0, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0])[0, 1]
    assert metrics["pearson"] == pytest.approx(want, abs=1e-12)
    assert metrics["score"] == (metrics["pearson"] + metrics["spearman"]) / 2


def test_events_report_each_class(collect):
    results = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0]] * 2)
    [table] = results.tables()
    assert [row[0] for row in table.rows] == ["entailment", "not_entailment"]
    assert results.events()[-1][1]["counts"] == [[3, 1], [0, 4]]


def test_predictions_are_written_as_class_names(collect, tmp_path):
    collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4).write(tmp_path / "x.tsv")
    lines = (tmp_path / "x.tsv").read_text().splitlines()
    assert lines[:3] == ["index\tprediction", "0\tentailment", "1\tnot_entailment"]


def test_regression_has_neither_tables_nor_events(collect):
    results = collect("STS-B", [1.0] * 8)
    assert not results.tables() and not results.events()
    assert np.isnan(results.metrics()["score"])


def test_unlabeled_rows_do_not_count(collect):
    results = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0], [1.0, 0.0]])
    results.split.labeled[-2:] = False
    assert results.metrics()["accuracy"] == 1.0
    assert results.confusion.tolist() == [[3, 0], [0, 3]]


def test_three_classes_have_no_binary_f1(collect):
    results = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4)
    results.labels = replace(
        results.labels, classes=["entailment", "neutral", "contradiction"], metrics=["accuracy"]
    )
    assert results.metrics() == {"accuracy": 1.0, "matthews": 1.0, "score": 1.0}
