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
def answered(glue):
    """Answers to a split of a task, given batch by batch in another order."""

    def call(task, given, split="train"):
        source = SplitSource(glue(task), split)
        examples = GlueExamples(GlueConfig(tokens_per_sample=20), source)
        rows = examples.split
        answers, scores = GlueCollector(rows), torch.tensor(given, dtype=torch.float32)
        kind = Values if rows.is_regression else Classes
        for ids in (np.array([3, 0]), np.setdiff1d(np.arange(len(rows)), [3, 0]), np.zeros(0, int)):
            batch = examples.collate(ids, None)
            found = scores[ids] if len(ids) else scores[:1]
            answers.update(batch, {"label": kind(found, batch.targets)})
        answers.sync(World())
        return answers

    return call


def test_classification_metrics_cover_all_rows(answered):
    right = [[1.0, 0.0], [0.0, 1.0]] * 4
    assert answered("RTE", right).compute() == {
        "accuracy": 1.0,
        "f1": 1.0,
        "matthews": 1.0,
        "score": 1.0,
    }
    figures = answered("RTE", [[0.0, 1.0]] * 8).compute()
    assert figures["accuracy"] == figures["score"] == 0.5 and figures["matthews"] == 0.0


def test_regression_metrics_cover_all_rows(answered):
    found = answered("STS-B", [3.0, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0]).compute()
    want = np.corrcoef([3.8, 0.0] * 4, [3.0, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0])[0, 1]
    assert found["pearson"] == pytest.approx(want, abs=1e-12)
    assert found["score"] == (found["pearson"] + found["spearman"]) / 2


def test_events_report_each_class(answered):
    answers = answered("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0]] * 2)
    [table] = answers.tables()
    assert [row[0] for row in table.rows] == ["entailment", "not_entailment"]
    assert answers.events()[-1][1]["counts"] == [[3, 1], [0, 4]]


def test_predictions_are_written_as_class_names(answered, tmp_path):
    answered("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4).write(tmp_path / "x.tsv")
    lines = (tmp_path / "x.tsv").read_text().splitlines()
    assert lines[:3] == ["index\tprediction", "0\tentailment", "1\tnot_entailment"]


def test_regression_has_neither_tables_nor_events(answered):
    answers = answered("STS-B", [1.0] * 8)
    assert not answers.tables() and not answers.events()
    assert np.isnan(answers.compute()["score"])


def test_unlabeled_rows_do_not_count(answered):
    answers = answered("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0], [1.0, 0.0]])
    answers.split.labeled[-2:] = False
    assert answers.compute()["accuracy"] == 1.0
    assert answers.confusion.tolist() == [[3, 0], [0, 3]]


@pytest.mark.parametrize("task", ["RTE", "STS-B"])
def test_sync_gathers_the_predictions_of_all_ranks(glue, task, monkeypatch):
    given = [1, 0, 0, 1, 1, 0, 1, 1] if task == "RTE" else [3.2, 1.0, 4.0, 0.0, 4.0, 0.5, 3.0, 1.0]
    said = [json.dumps([ids, [given[i] for i in ids]]) for ids in ([0, 3, 6], [1, 2, 4, 5, 7])]
    monkeypatch.setattr(World, "all_gather", lambda world, text: said)
    found = GlueCollector(ClassificationSplit(glue(task), "train"))
    found.sync(World(size=2))
    assert found.predicted.tolist() == given


def test_three_classes_have_no_binary_f1(answered):
    answers = answered("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4)
    answers.labels = replace(
        answers.labels, classes=["entailment", "neutral", "contradiction"], metrics=["accuracy"]
    )
    assert answers.compute() == {"accuracy": 1.0, "matthews": 1.0, "score": 1.0}
