from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from toolkit import build_model, load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.config.validate import ValidateConfig
from toolkit.data.labelled.split import LabelledSplit
from toolkit.tasks.glue_config import GlueConfig
from toolkit.tasks.glue_examples import LabelledExamples
from toolkit.training.evaluate import evaluate
from toolkit.training.run import run

ARCHS = ["composite_bert_tiny", "taco_tiny", "convbert_tiny"]


def examples(folder, split="train"):
    c = GlueConfig(tokens_per_sample=20)
    return LabelledExamples(c, LabelledSplit(folder, split), training=False)


@pytest.mark.parametrize("arch", ARCHS)
def test_an_answer_does_not_depend_on_the_rows_beside_it(glue, arch):
    torch.manual_seed(0)
    folder = glue()
    sizes = {"vocabulary_size": len(folder.vocabulary), "labels": 2}
    learner, found = build_model(arch, task="glue", **sizes).eval(), examples(folder)
    together = learner(found.collate(np.arange(2), None))["label"].logits
    alone = [learner(found.collate(np.array([i]), None))["label"].logits for i in range(2)]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-4)


def test_the_pooled_head_has_the_weights_that_converted_models_bring():
    learner = build_model("bert_tiny", vocabulary_size=40, labels=3, task="glue")
    names = [name for name, _ in learner.named_parameters() if name.startswith("task.")]
    assert sorted(names) == [
        "task.head.output.bias",
        "task.head.output.weight",
        "task.pooler.bias",
        "task.pooler.weight",
    ]
    width = learner.encoder.width
    assert learner.task.pooler.weight.shape == (width, width)


def test_data_without_classes_is_refused():
    with pytest.raises(ToolkitError, match=r"must know how many classes there are, but the data"):
        build_model("bert_tiny", vocabulary_size=40, task="glue")


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0, "task": "glue"}
    recipe = {"lr": 3e-3, "batch_size": 2, "num_workers": 0, "max_epoch": 6, "best_metric": "score"}
    where = {"data.folders": [str(folder.path)], "save_dir": str(target)}
    return compose({**small, **recipe, **where, **changes})


def test_a_run_learns_classes_and_writes_its_answers(glue, tmp_path):
    folder = glue()
    changes = {"task.head": "plain", "data.valid_subset": "train,valid"}
    result = run(options(folder, tmp_path / "run", **changes))
    assert result.best["metric"] == "score" and result.valid["train"]["loss"] < math.log(2)
    assert set(result.valid["valid"]) > {"accuracy", "f1", "matthews", "score", "loss"}
    given = {"folders": [str(folder.path)], "path": [str(tmp_path / "run")], "num_workers": 0}
    files = {"predictions": str(tmp_path / "x.tsv"), "json": str(tmp_path / "told")}
    found = evaluate(ValidateConfig(**given, valid_subset="test", **files))
    assert found[str(tmp_path / "run")]["test"] == {"examples": 2}
    assert (tmp_path / "x.tsv").read_text().startswith("index\tprediction\n0\t")
    assert json.loads((tmp_path / "told").read_text().splitlines()[-1])["examples"] == 2


def test_a_run_goes_on_from_another_tasks_encoder_to_numbers(glue, tmp_path):
    first = glue()
    run(options(first, tmp_path / "first", max_epoch=1))
    second = glue("STS-B", codec_from=str(first.path))
    more = {"finetune_from": str(tmp_path / "first"), "data.valid_subset": "train"}
    result = run(options(second, tmp_path / "second", **more, max_epoch=3))
    assert {"pearson", "spearman", "score"} < set(result.valid["train"])
    assert load_checkpoint(tmp_path / "second").codec.labels.task == "STS-B"
