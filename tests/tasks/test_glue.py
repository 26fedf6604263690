from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.criteria import IGNORED, Classes, Values
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue import GlueConfig, GlueExamples, GlueResults
from toolkit.training.run import run


def make_examples(folder, split="train", max_tokens=20, training=False):
    c = GlueConfig(tokens_per_sample=max_tokens)
    return GlueExamples(c, SplitSource(folder, split, training=training))


def test_rows_are_read_as_pairs_with_their_labels(glue):
    folder = glue()
    batch = make_examples(folder, "valid").collate(np.arange(2), None)
    words, rows = folder.vocabulary, batch.inputs.tokens
    for row, texts in zip(rows.tolist(), [("cats run", "a cat"), ("dogs", "cats")], strict=True):
        a, b = (folder.tokenizer.encode(text) for text in texts)
        want = [words.cls, *a, words.sep, *b, words.sep]
        assert row == want + [words.pad] * (rows.shape[1] - len(want))
    assert batch.targets.tolist() == [0, 1] and batch.weights == {"label": 2.0}
    assert torch.equal(rows.flatten()[batch.selected], torch.full((2,), words.cls))
    assert batch.tokens == int((~batch.inputs.padding).sum())


def test_long_pairs_are_truncated_and_reported(glue):
    examples = make_examples(glue(), max_tokens=7)
    assert examples.lengths.max() == 7 and "cut" in examples.remark
    assert examples.collate(np.arange(4), None).inputs.tokens.shape == (4, 7)


def test_training_rejects_unlabeled_rows(glue):
    with pytest.raises(ToolkitError, match=r"Split 'test' of .* has rows without labels"):
        make_examples(glue(), "test", training=True)
    batch = make_examples(glue(), "test").collate(np.arange(2), None)
    assert batch.weights == {"label": 0.0} and batch.targets.tolist() == [IGNORED] * 2


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


def test_unlabeled_rows_do_not_count(collect):
    results = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 3 + [[0.0, 1.0], [1.0, 0.0]])
    results.split.labeled[-2:] = False
    assert results.metrics()["accuracy"] == 1.0
    assert results.confusion.tolist() == [[3, 0], [0, 3]]


def test_three_classes_have_no_binary_f1(collect):
    results = collect("RTE", [[1.0, 0.0], [0.0, 1.0]] * 4)
    classes = ["entailment", "neutral", "contradiction"]
    results.labels = replace(results.labels, classes=classes, metrics=["accuracy"])
    assert results.metrics() == {"accuracy": 1.0, "matthews": 1.0, "score": 1.0}


def test_glue_rejects_data_without_labels():
    with pytest.raises(ToolkitError, match=r"requires labeled data"):
        build_model("bert_tiny", vocabulary_size=40, task="glue")


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0, "task": "glue"}
    recipe = {"lr": 3e-3, "batch_size": 2, "num_workers": 0, "max_epoch": 6, "best_metric": "score"}
    where = {"data.dirs": [str(folder.path)], "save_dir": str(target)}
    return compose({**small, **recipe, **where, **changes})


@pytest.mark.slow
def test_run_learns_classes_and_writes_predictions(glue, tmp_path):
    folder = glue()
    changes = {"task.head": "plain", "data.valid_subset": "train,valid"}
    result = run(options(folder, tmp_path / "run", **changes))
    assert result.best["metric"] == "score" and result.valid["train"]["loss"] < math.log(2)
    assert set(result.valid["valid"]) > {"accuracy", "f1", "matthews", "score", "loss"}
    sources = {"dirs": [str(folder.path)], "path": [str(tmp_path / "run")], "num_workers": 0}
    files = {"predictions": str(tmp_path / "x.tsv"), "json": str(tmp_path / "events")}
    results = evaluate_checkpoints(ValidateConfig(**sources, valid_subset="test", **files))
    assert results[str(tmp_path / "run")]["test"] == {"examples": 2}
    assert (tmp_path / "x.tsv").read_text().startswith("index\tprediction\n0\t")
    assert json.loads((tmp_path / "events").read_text().splitlines()[-1])["examples"] == 2


@pytest.mark.slow
def test_run_finetunes_the_encoder_of_another_task_for_regression(glue, tmp_path, capfd):
    first = glue()
    run(options(first, tmp_path / "first", max_epoch=1))
    capfd.readouterr()
    second = glue("STS-B", tokenizer_from=str(first.path))
    more = {"finetune_from": str(tmp_path / "first"), "data.valid_subset": "train"}
    result = run(options(second, tmp_path / "second", **more, max_epoch=3))
    assert {"pearson", "spearman", "score"} < set(result.valid["train"])
    assert not {"ppl", "accuracy"} & {*result.valid["train"], *result.train}
    stderr = capfd.readouterr().err
    assert "checkpoint's have another shape: task.head.output.weight (2, 128) for (1, 1" in stderr
    assert load_checkpoint(tmp_path / "second").tokenizer.labels.task == "STS-B"


@pytest.mark.slow
def test_class_tables_name_their_split_and_unwritable_predictions_leave_metrics(
    glue, tmp_path, capfd
):
    folder, path = glue(), str(tmp_path / "run")
    run(options(folder, path, max_epoch=1))
    sources = {"dirs": [str(folder.path)], "path": [path], "num_workers": 0}
    files = {"predictions": str(tmp_path / "x.tsv")}
    for subsets, wanted in (("train,valid", [f"{path} train", f"{path} valid"]), ("valid", [])):
        capfd.readouterr()
        evaluate_checkpoints(
            ValidateConfig(**sources, valid_subset=subsets, **({} if wanted else files))
        )
        lines = capfd.readouterr().out.splitlines()
        heads = [number for number, line in enumerate(lines) if line.startswith("class ")]
        assert [lines[it - 1] for it in heads if it] == wanted and heads
        assert wanted or lines[-1] == f"wrote {tmp_path / 'x.tsv'}"
    files = {"predictions": "/dev/full", "json": str(tmp_path / "events")}
    with pytest.raises(OSError, match="/dev/full"):
        evaluate_checkpoints(ValidateConfig(**sources, **files))
    assert "matthews" in capfd.readouterr().out.splitlines()[-2]
    assert "matthews" in json.loads((tmp_path / "events").read_text().splitlines()[-1])
