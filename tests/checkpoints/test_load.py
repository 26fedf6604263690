import shutil

import pytest
import torch

from toolkit import load_checkpoint
from toolkit.checkpoints.load import find_checkpoint
from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.resume import find_newest_intact
from toolkit.training.run import TrainingRun, run


def test_load_checkpoint_needs_no_data_folder(config, trained, tmp_path):
    learner = load_checkpoint(trained / "checkpoint_last")
    same = TrainingRun(config(), World()).trainer.learner
    for (name, p), q in zip(learner.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(p, q), name
    assert not learner.training
    assert learner.tokenizer.decode(learner.tokenizer.encode("the cat sat")) == "the cat sat"


def test_find_checkpoint_prefers_the_best_of_a_save_folder(trained):
    assert find_checkpoint(trained).samefile(trained / "checkpoint_e2_u10")
    (trained / "checkpoint_best").unlink()
    assert find_checkpoint(trained).samefile(trained / "checkpoint_last")


def test_checkpoint_loads_without_its_optimizer_but_does_not_resume(config, trained, tmp_path):
    optimizer = trained / "checkpoint_last" / "optimizer.safetensors"
    whole = load_checkpoint(trained / "checkpoint_last").state_dict()
    optimizer.unlink()
    shutil.rmtree(trained / "checkpoint_e1_u5")
    alone = load_checkpoint(trained / "checkpoint_last").state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in alone.items())
    restore = str(trained / "checkpoint_last")
    with pytest.raises(ToolkitError, match=r"optimizer\.safetensors must be readable, but"):
        run(config(restore_file=restore, save_dir=str(tmp_path / "other")))
    with pytest.raises(ToolkitError, match=r"must hold an intact checkpoint, but all 1"):
        run(config())
    optimizer.write_bytes(b"changed")
    with pytest.raises(ToolkitError, match=r"optimizer\.safetensors must have the digest"):
        load_checkpoint(trained / "checkpoint_last")


def test_load_checkpoint_names_a_damaged_checkpoint(trained, tmp_path):
    messages = []
    (trained / "checkpoint_e2_u10" / "config.json").write_text("")
    assert find_newest_intact(SaveFolder(trained), messages.append).name == "checkpoint_e1_u5"
    assert len(messages) == 1 and "_u10/config.json must have the digest" in messages[0]
