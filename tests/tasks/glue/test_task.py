from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.config.sections import ComponentConfig
from toolkit.models.interface import Sizes
from toolkit.optim.parameter_groups import OptimizerConfig, build_parameter_groups
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue import GlueConfig, GlueExamples
from toolkit.training.run import run

ARCHS = ["composite_bert_tiny", "taco_tiny", "convbert_tiny"]


def make_examples(folder, split="train"):
    c = GlueConfig(tokens_per_sample=20)
    return GlueExamples(c, SplitSource(folder, split))


@pytest.mark.parametrize("arch", ARCHS)
def test_glue_scores_do_not_depend_on_the_other_rows(glue, arch):
    torch.manual_seed(0)
    folder = glue()
    sizes = {"sizes": {"tokens": len(folder.vocabulary), "labels": 2}}
    learner, examples = build_model(arch, task="glue", **sizes).eval(), make_examples(folder)
    together = learner(examples.collate(np.arange(2), None))["label"].logits
    alone = [learner(examples.collate(np.array([i]), None))["label"].logits for i in range(2)]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-4)


def test_pooled_head_has_the_weights_of_converted_models():
    learner = build_model("bert_tiny", sizes={"tokens": 40, "labels": 3}, task="glue")
    names = [name for name, _ in learner.named_parameters() if name.startswith("task.")]
    assert sorted(names) == [
        "task.head.output.bias",
        "task.head.output.weight",
        "task.pooler.bias",
        "task.pooler.weight",
    ]
    width = learner.encoder.width
    assert learner.task.pooler.weight.shape == (width, width)


@pytest.mark.parametrize("head", ["plain", "pooled"])
def test_taco_head_reads_both_streams_concatenated(glue, head):
    folder = glue()
    sizes, examples = Sizes(tokens=len(folder.vocabulary), labels=2), make_examples(folder)
    arch = ComponentConfig("taco_tiny", ARCHITECTURES["taco_tiny"].config)
    learner = build_learner(arch, ComponentConfig("glue", GlueConfig(head=head)), sizes).eval()
    batch, columns = examples.collate(np.arange(3), None), learner.encoder.head_columns
    states = learner.encoder(batch.inputs).states[:, 0]  # (B, S, D) -> (B, D)
    x = torch.cat([states[:, columns.tokens], states[:, columns.positions]], -1)
    assert x.shape[1] == arch.config.word_width + arch.config.position_width
    pooler, output = learner.task.pooler, learner.task.head.output
    x = (x @ pooler.weight.T + pooler.bias).tanh() if head == "pooled" else x
    wanted = x @ output.weight.T + output.bias
    torch.testing.assert_close(learner(batch)["label"].logits, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("arch", ["bert_tiny", *ARCHS])
def test_layerwise_decay_slows_lower_layers_of_every_encoder(arch):
    learner = build_model(arch, sizes={"tokens": 40, "labels": 2}, task="glue", layers=3)
    c = OptimizerConfig(lr=1.0, layerwise_lr_decay=0.5)
    rates = {
        n: g["lr"]
        for g in build_parameter_groups(learner.named_parameters(), c)
        for n, _ in g["params"]
    }
    for name, rate in rates.items():
        layer = re.search(r"^encoder\.layers\.(\d)", name)
        inside = 0.5 ** (3 - int(layer[1])) if layer else 0.5**4
        assert rate == (1.0 if name.startswith("task.") else inside), name


def test_glue_rejects_data_without_labels():
    with pytest.raises(ToolkitError, match=r"requires labeled data"):
        build_model("bert_tiny", vocabulary_size=40, task="glue")


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0, "task": "glue"}
    recipe = {"lr": 3e-3, "batch_size": 2, "num_workers": 0, "max_epoch": 6, "best_metric": "score"}
    where = {"data.dirs": [str(folder.path)], "save_dir": str(target)}
    return compose({**small, **recipe, **where, **changes})


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


def test_predictions_that_cannot_be_written_leave_the_metrics(glue, tmp_path, capfd):
    folder = glue()
    run(options(folder, tmp_path / "run", max_epoch=1))
    sources = {"dirs": [str(folder.path)], "path": [str(tmp_path / "run")], "num_workers": 0}
    files = {"predictions": "/dev/full", "json": str(tmp_path / "events")}
    with pytest.raises(ToolkitError, match="Cannot write --predictions"):
        evaluate_checkpoints(ValidateConfig(**sources, **files))
    assert "matthews" in capfd.readouterr().out.splitlines()[-2]
    assert "matthews" in json.loads((tmp_path / "events").read_text().splitlines()[-1])


def test_class_tables_name_their_split_if_there_are_several(glue, tmp_path, capfd):
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
