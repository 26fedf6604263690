"""Scenario 27: checkpoints of earlier versions load, predict the same and resume."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from toolkit import load_checkpoint
from toolkit.checkpoints.load import read_config
from toolkit.common import json_files
from toolkit.config.load import compose
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.training.resume import compare_options
from toolkit.training.run import TrainingRun

RELEASES = sorted((Path(__file__).resolve().parents[1] / "fixtures" / "releases").iterdir())


def checkpoint_of(release):
    (found,) = release.glob("checkpoint_e*")
    return found


@pytest.fixture(params=RELEASES, ids=[release.name for release in RELEASES])
def release(request):
    return request.param


def test_checkpoint_of_a_release_loads_and_predicts_the_same(release):
    learner = load_checkpoint(checkpoint_of(release))
    kept = load_file(release / "predictions.safetensors")
    with torch.no_grad():
        inputs = Inputs(kept["tokens"], padding=kept["padding"])
        states = learner.encoder(inputs).states[~kept["padding"]]
        logits = learner.task.head(states, learner.encoder.token_embedding.weight)
    torch.testing.assert_close(logits, kept["logits"], atol=1e-5, rtol=1e-5)
    assert learner.fill_mask("the [MASK] sat", top=3)


def test_checkpoint_of_a_release_resumes(release, tmp_path):
    """New options have their defaults; those of the release are kept."""
    checkpoint, data = checkpoint_of(release), tmp_path / "data"
    shutil.copytree(release / "data", data)
    shutil.copy(checkpoint / "sentencepiece.model", data)
    before, _ = read_config(checkpoint)
    shape = {"layers": 1, "width": 16, "heads": 2, "embedding_width": 8}
    config = compose(
        {
            "arch": before.arch.name,
            **{f"arch.{name}": value for name, value in shape.items()},
            "task": before.task.name,
            "data.dirs": [str(data)],
            "data.batch_size": before.data.batch_size,
            "data.num_workers": 0,
            "training.max_update": 8,
            "training.precision": "fp32",
            "checkpoint.restore_file": str(checkpoint),
            "checkpoint.save_dir": str(tmp_path / "run"),
        }
    )
    training = TrainingRun(config, World())
    assert training.trainer.progress.update == 6
    assert training.fit().updates == 8
    training.close()


def test_option_missing_in_a_release_gets_its_default(release, tmp_path):
    """As if a later version had added a field to the architecture."""
    saved = json_files.loads((checkpoint_of(release) / "config.json").read_text())
    config, _ = read_config(checkpoint_of(release))
    del saved["run"]["arch"]["radius"], saved["run"]["training"]["compile"]
    (tmp_path / "config.json").write_text(json_files.dumps(saved))
    assert compare_options(tmp_path, config) == {}
