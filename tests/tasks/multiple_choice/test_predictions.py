from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Classes
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.multiple_choice import (
    MultipleChoiceConfig,
    MultipleChoiceExamples,
    MultipleChoiceResults,
)


@pytest.fixture
def collect(questions):
    """Results, updated batch by batch in another order."""

    def call(form, predicted):
        source = SplitSource(questions(form), "valid")
        examples = MultipleChoiceExamples(MultipleChoiceConfig(tokens_per_sample=30), source)
        split = examples.split
        results = MultipleChoiceResults(examples)
        everything = np.arange(len(split))
        for ids in (everything[2:], everything[:2], everything[:0]):
            batch = examples.collate(ids, None)
            scores = torch.zeros(batch.option_rows.shape)
            for row, question in enumerate(ids.tolist()):
                scores[row, predicted[question]] = 1.0
            results.update(batch, {"choice": Classes(scores, batch.targets)})
        results.sync(World())
        return results

    return call


def test_groups_have_separate_accuracies(collect):
    metrics = collect("race", [1, 0, 0, 0]).metrics()
    assert metrics == {"accuracy": 0.75, "high_accuracy": 1.0, "middle_accuracy": 0.5}


def test_single_group_has_no_separate_accuracy(collect):
    assert collect("swag", [1, 2, 1, 2, 0, 0, 1, 0]).metrics() == {"accuracy": 5 / 8}


def test_race_predictions_are_letters_by_passage(collect, tmp_path):
    collect("race", [1, 0, 0, 1]).write(tmp_path / "x.json")
    written = json.loads((tmp_path / "x.json").read_text())
    assert written == {"high/1.txt": {"1": "B", "2": "A"}, "middle/2.txt": {"1": "A", "2": "B"}}


def test_swag_predictions_are_rows_and_labels(collect, tmp_path):
    collect("swag", [1, 2, 0, 2, 0, 0, 1, 0]).write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().splitlines()[:4] == ["row,label", "0,1", "1,2", "2,0"]


@pytest.mark.parametrize(
    ("form", "count", "message"),
    [
        ("swag", 8, r"a unique row per example, but '0' occurs"),
        ("race", 4, r"a unique passage and number per example, but 'high"),
    ],
)
def test_predictions_reject_two_files_of_the_same_name(collect, tmp_path, form, count, message):
    results = collect(form, [0] * count)
    results.split.records[1] = results.split.records[0]
    with pytest.raises(ToolkitError, match=message):
        results.write(tmp_path / "x")


def test_questions_without_known_answers_do_not_count(collect):
    results = collect("race", [1, 0, 0, 0])
    results.split.answers[[1, 2, 3]] = [-1, -1, -1]
    assert results.metrics() == {
        "accuracy": 1.0,
        "high_accuracy": 1.0,
        "middle_accuracy": pytest.approx(float("nan"), nan_ok=True),
    }
