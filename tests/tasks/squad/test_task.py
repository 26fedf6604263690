from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.tasks.conftest import ASKED, NOTHING
from toolkit import build_model, load_checkpoint
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.squad.examples import SquadConfig, SquadExamples
from toolkit.training.run import run


def test_scores_are_fp32_for_lower_precision_states(questions):
    folder = questions()
    learner = build_model("bert_tiny", task="squad", vocabulary_size=len(folder.vocabulary))
    examples = SquadExamples(SquadConfig(tokens_per_sample=30), SplitSource(folder, "train"))
    with torch.autocast("cpu", torch.bfloat16):
        scores = learner(examples.collate(np.arange(3), None))["begin"].logits
    assert scores.dtype == torch.float32


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0, "task": "squad"}
    recipe = {"lr": 5e-3, "batch_size": 4, "num_workers": 0, "max_epoch": 12, "best_metric": "f1"}
    where = {"data.dirs": [str(folder.path)], "save_dir": str(target)}
    return compose({**small, **recipe, **where, "training.precision": "fp32", **changes})


@pytest.mark.slow
def test_run_learns_answers_and_writes_predictions(questions, tmp_path):
    folder = questions(asked=[*ASKED, *NOTHING], version="v2.0", bare=ASKED[:1])
    changes = {"task.tokens_per_sample": 20, "task.stride": 8}
    result = run(options(folder, tmp_path / "run", **changes))
    assert result.best["metric"] == "f1" and result.best["value"] == 1.0
    sources = {"dirs": [str(folder.path)], "path": [str(tmp_path / "run")], "num_workers": 0}
    files = {"predictions": str(tmp_path / "x.json"), "precision": "fp32"}
    evaluate_checkpoints(ValidateConfig(**sources, valid_subset="test", **files))
    assert json.loads((tmp_path / "x.json").read_text()) == {"q1": "Anna Bell."}
    threshold = load_checkpoint(tmp_path / "run").task.null_threshold
    results = evaluate_checkpoints(
        ValidateConfig(**sources, valid_subset="train", precision="fp32")
    )
    [metrics] = results.values()
    assert metrics["train"]["null_threshold"] == float(threshold) != 0
    assert metrics["train"]["f1"] == 1.0
