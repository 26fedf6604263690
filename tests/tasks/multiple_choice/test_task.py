from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from toolkit import build_model
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.multiple_choice import MultipleChoiceConfig, MultipleChoiceExamples
from toolkit.training.run import run


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "taco_tiny"])
def test_scores_do_not_depend_on_the_other_questions(questions, arch):
    torch.manual_seed(0)
    first = questions("swag")
    second = questions("race", tokenizer=None, tokenizer_from=str(first.path))
    folder = DataFolder.open(first.path, second.path)
    sizes = {"vocabulary_size": len(folder.vocabulary)}
    learner = build_model(arch, task="multiple_choice", **sizes).eval()
    examples = MultipleChoiceExamples(
        MultipleChoiceConfig(tokens_per_sample=20), SplitSource(folder, "train")
    )
    together = learner(examples.collate(np.array([0, 8]), None))["choice"].logits
    alone = [learner(examples.collate(np.array([i]), None))["choice"].logits[0] for i in (0, 8)]
    torch.testing.assert_close(together[0], alone[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together[1, :2], alone[1], atol=1e-5, rtol=1e-4)
    assert together[1, 2] == -1e4


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0}
    recipe = {"lr": 3e-3, "batch_size": 4, "num_workers": 0, "max_epoch": 8}
    where = {"data.dirs": [str(folder.path)], "save_dir": str(target)}
    task = {"task": "multiple_choice", "best_metric": "accuracy", "training.precision": "fp32"}
    return compose({**small, **recipe, **where, **task, **changes})


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"head": "x"}, r"task.head must be one of pooled, plain, gelu, but is 'x'"),
        ({"head_dropout": 1.0}, r"task.head_dropout must be at least 0 and below 1, but is 1"),
        (
            {"tokens_per_sample": 3},
            r"task.tokens_per_sample must be 0 or at least 8, but is 3",
        ),
    ],
)
def test_multiple_choice_config_rejects_options_out_of_range(wrong, message):
    with pytest.raises(ToolkitError, match=message):
        MultipleChoiceConfig(**wrong)


def test_tokens_per_sample_above_the_maximum_of_the_architecture_is_rejected(questions, tmp_path):
    changes = {"task.tokens_per_sample": 999}
    with pytest.raises(ToolkitError, match=r"must be at most the architecture's maximum length"):
        run(options(questions("swag"), tmp_path / "run", **changes))
