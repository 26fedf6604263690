"""The tasks that fine-tune an encoder: layer mixing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit import load_checkpoint
from toolkit.commands.inspect import describe_checkpoint
from toolkit.common.registry import TASKS
from toolkit.config.load import compose
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import SplitSource
from toolkit.training.data import resolve_task, to_sizes
from toolkit.training.run import run

SURE = 200.0
"""A weight whose softmax is 1 next to zeros."""


def options(folder: DataFolder, task, **changes):
    return compose(
        {
            "arch": "composite_bert_tiny",
            "arch.layers": 2,
            "arch.width": 16,
            "arch.embedding_width": 8,
            "task": task,
            "data.dirs": [str(folder.path)],
            "data.batch_size": 4,
            "num_workers": 0,
            "max_epoch": 1,
            "training.precision": "fp32",
            **changes,
        }
    )


FINE_TUNED = ["glue", "squad", "multiple_choice", "pos_tagging"]


def build(config, folder):
    torch.manual_seed(0)
    return build_learner(config.arch, config.task, to_sizes(folder)).eval()


@pytest.mark.parametrize("task", FINE_TUNED)
def test_weight_on_one_layer_predicts_from_that_layer(task, folders):
    folder = folders(task)
    mixed = build(options(folder, task, **{"task.layer_mixing": True}), folder)
    plain = build(options(folder, task), folder)
    resolved = resolve_task(options(folder, task).task, options(folder, task).arch)
    examples = TASKS[task].factory.examples(resolved.config, SplitSource(folder, "train"))
    batch = examples.collate(np.arange(2), None)
    for layer in (2, 1):
        mixed.task.features.weights.data = SURE * torch.eye(3)[layer]
        del plain.encoder.layers[layer:]
        for name, prediction in plain(batch).items():
            torch.testing.assert_close(mixed(batch)[name][0], prediction[0])


def test_trained_mixing_is_saved_described_and_loaded(glue, tmp_path):
    folder, changes = glue(), {"task.layer_mixing": True, "lr": 0.1, "max_epoch": 2}
    run(options(folder, "glue", save_dir=str(tmp_path / "run"), **changes))
    features = load_checkpoint(tmp_path / "run" / "checkpoint_last").task.features
    shares = features.weights.softmax(0)
    assert features.weights.abs().min() > 0 and features.scale != 1
    found = describe_checkpoint(tmp_path / "run" / "checkpoint_last")[0]["layer mixing"]
    assert found == (
        f"embeddings {shares[0]:.1%}, layer 1 {shares[1]:.1%}, layer 2 {shares[2]:.1%}; "
        f"scale {features.scale.item():.3g}"
    )
