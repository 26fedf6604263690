from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.criteria import IGNORED, Classes
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.multiple_choice import (
    MultipleChoiceConfig,
    MultipleChoiceExamples,
    MultipleChoiceResults,
)
from toolkit.training.run import run


def make_examples(folder, split="train", max_tokens=30, training=False):
    c = MultipleChoiceConfig(tokens_per_sample=max_tokens)
    return MultipleChoiceExamples(c, SplitSource(folder, split, training=training))


def test_options_are_paired_with_their_passage(questions):
    folder = questions("race")
    batch = make_examples(folder).collate(np.array([1]), None)
    words, tokenizer = folder.vocabulary, folder.tokenizer
    passage = tokenizer.encode("the cat sat on a mat and saw dogs")
    wanted = [
        [words.cls, *passage, words.sep, *tokenizer.encode(f"the cat saw {option}"), words.sep]
        for option in ("dogs", "cats")
    ]
    assert batch.inputs.tokens.tolist() == wanted and batch.targets.tolist() == [0]
    assert batch.option_rows.tolist() == [[0, 1]] and batch.sentences == 1
    assert batch.tokens == sum(map(len, wanted))


def test_questions_may_have_different_numbers_of_options(questions):
    first = questions("swag")
    second = questions("race", tokenizer=None, tokenizer_from=str(first.path))
    examples = make_examples(DataFolder.open(first.path, second.path))
    batch = examples.collate(np.array([1, 9]), None)
    assert batch.option_rows.tolist() == [[0, 1, 2], [3, 4, -1]] and batch.targets.tolist() == [
        2,
        0,
    ]
    padded_tokens = batch.inputs.tokens.numel()
    assert padded_tokens <= examples.lengths[[1, 9]].max() * 2, "the bound on tokens holds"


def test_long_passages_are_truncated_and_reported(questions):
    examples = make_examples(questions("race"), max_tokens=9)
    assert examples.collate(np.arange(2), None).inputs.tokens.shape == (4, 9)
    assert "cut" in examples.remark and examples.lengths.max() == 18


def test_unknown_answers_have_weight_zero(questions, tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("sent1,sent2,ending0,ending1\nthe cat,it,sat,ran\n")
    folder = questions("swag", testpref=str(path))
    unknown = make_examples(folder, "test").collate(np.arange(1), None)
    assert unknown.targets.tolist() == [IGNORED] and unknown.weights == {"choice": 0.0}
    with pytest.raises(
        ToolkitError, match=r"has questions without answers and cannot be used for training"
    ):
        make_examples(folder, "test", training=True)


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


def test_race_predictions_are_letters_by_passage(collect, tmp_path):
    collect("race", [1, 0, 0, 1]).write(tmp_path / "x.json")
    written = json.loads((tmp_path / "x.json").read_text())
    assert written == {"high/1.txt": {"1": "B", "2": "A"}, "middle/2.txt": {"1": "A", "2": "B"}}


def test_swag_predictions_are_rows_and_labels(collect, tmp_path):
    collect("swag", [1, 2, 0, 2, 0, 0, 1, 0]).write(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().splitlines()[:4] == ["row,label", "0,1", "1,2", "2,0"]


def test_predictions_reject_two_files_of_the_same_name(collect, tmp_path):
    results = collect("swag", [0] * 8)
    results.split.records[1] = results.split.records[0]
    with pytest.raises(ToolkitError, match=r"a unique row per example, but '0' occurs"):
        results.write(tmp_path / "x")


def test_questions_without_known_answers_do_not_count(collect):
    results = collect("race", [1, 0, 0, 0])
    results.split.answers[[1, 2, 3]] = [-1, -1, -1]
    assert results.metrics() == {
        "accuracy": 1.0,
        "high_accuracy": 1.0,
        "middle_accuracy": pytest.approx(float("nan"), nan_ok=True),
    }


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0}
    recipe = {"lr": 3e-3, "batch_size": 4, "num_workers": 0, "max_epoch": 8}
    where = {"data.dirs": [str(folder.path)], "save_dir": str(target)}
    task = {"task": "multiple_choice", "best_metric": "accuracy", "training.precision": "fp32"}
    return compose({**small, **recipe, **where, **task, **changes})


@pytest.mark.slow
def test_run_learns_to_choose_and_writes_predictions(questions, tmp_path):
    folder = questions("swag")
    result = run(options(folder, tmp_path / "run"))
    assert result.best["value"] == 1.0 and result.valid["valid"]["loss"] < math.log(3)
    sources = {"dirs": [str(folder.path)], "path": [str(tmp_path / "run")], "num_workers": 0}
    evaluate_checkpoints(
        ValidateConfig(**sources, predictions=str(tmp_path / "x.csv"), precision="fp32")
    )
    assert (tmp_path / "x.csv").read_text() == "row,label\n" + "".join(
        f"{row},{label}\n" for row, label in enumerate([1, 2] * 4)
    )
