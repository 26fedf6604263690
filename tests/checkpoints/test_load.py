import shutil

import pytest
import torch

from toolkit.checkpoints.load import find_checkpoint, load_checkpoint
from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training.resume import find_newest_intact
from toolkit.training.run import TrainingRun, run


@pytest.fixture
def trained(config, tmp_path):
    run(config(max_update=2))
    return tmp_path / "run"


def test_a_checkpoint_needs_no_data_folder(config, trained, tmp_path):
    learner = load_checkpoint(trained / "checkpoint_last")
    same = TrainingRun(config(max_update=2), World()).trainer.learner
    for (name, p), q in zip(learner.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(p, q), name
    assert not learner.training
    assert learner.tokenizer.decode(learner.tokenizer.encode("the cat sat")) == "the cat sat"


def test_a_loaded_learner_fills_masks(trained):
    fillings = load_checkpoint(trained).fill_mask("the [MASK] sat", top=3)
    assert len(fillings) == 1 and len(fillings[0]) == 3


def test_a_save_folder_stands_for_its_best_checkpoint_else_its_last(trained):
    assert find_checkpoint(trained).samefile(trained / "checkpoint_e1_u2")
    (trained / "checkpoint_best").unlink()
    assert find_checkpoint(trained).samefile(trained / "checkpoint_last")


def test_a_damaged_checkpoint_is_passed_over_with_its_name(trained, tmp_path):
    shutil.copytree(trained / "checkpoint_e1_u2", trained / "checkpoint_e1_u1")
    told = []
    (trained / "checkpoint_e1_u2" / "dict.txt").write_text("")
    assert find_newest_intact(SaveFolder(trained), told.append).name == "checkpoint_e1_u1"
    assert len(told) == 1 and "checkpoint_e1_u2/dict.txt must have the digest" in told[0]


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ToolkitError, match=r"No such checkpoint: .*nowhere"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_folder_of_other_things_is_told(tmp_path):
    with pytest.raises(ToolkitError, match=r"must be a folder with a manifest\.json, but"):
        load_checkpoint(tmp_path)
