import pickle
import shutil

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.training import manifest
from toolkit.training.checkpoint import find, load_checkpoint
from toolkit.training.resume import newest_good
from toolkit.training.run import Run, run
from toolkit.training.save_folder import SaveFolder


class Malicious:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


@pytest.fixture
def trained(config, tmp_path):
    run(config(max_update=2))
    return tmp_path / "run"


def test_a_checkpoint_needs_no_data_folder(config, trained, tmp_path):
    learner = load_checkpoint(trained / "checkpoint_last")
    same = Run(config(max_update=2), World()).trainer.learner
    for (name, p), q in zip(learner.named_parameters(), same.parameters(), strict=True):
        assert torch.equal(p, q), name
    assert not learner.training
    assert learner.codec.decode(learner.codec.encode("the cat sat")) == "the cat sat"


def test_a_loaded_learner_fills_masks(trained):
    fillings = load_checkpoint(trained).fill_mask("the [MASK] sat", top=3)
    assert len(fillings) == 1 and len(fillings[0]) == 3


def test_a_save_folder_stands_for_its_best_checkpoint_else_its_last(trained):
    assert find(trained).samefile(trained / "checkpoint_e1_u2")
    (trained / "checkpoint_best").unlink()
    assert find(trained).samefile(trained / "checkpoint_last")


def test_a_damaged_checkpoint_is_passed_over_with_its_name(trained, tmp_path):
    shutil.copytree(trained / "checkpoint_e1_u2", trained / "checkpoint_e1_u1")
    told = []
    (trained / "checkpoint_e1_u2" / "dict.txt").write_text("")
    assert newest_good(SaveFolder(trained), told.append).name == "checkpoint_e1_u1"
    assert len(told) == 1 and "checkpoint_e1_u2/dict.txt must have the digest" in told[0]


def test_a_pickle_posing_as_a_checkpoint_is_refused_and_never_run(tmp_path):
    marker, file = tmp_path / "executed", tmp_path / "checkpoint.pt"
    torch.save({"model": Malicious(marker)}, file)
    with pytest.raises(ToolkitError, match=r"but .*checkpoint.pt is a file. It was not opened"):
        load_checkpoint(file)
    assert not marker.exists()


def test_pickles_inside_a_checkpoint_are_refused_and_never_run(trained, tmp_path):
    folder, marker = trained / "checkpoint_e1_u2", tmp_path / "executed"
    facts = manifest.read(folder)
    for name in facts["files"]:
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(pickle.dumps(Malicious(marker)))
        digest = manifest.sha256(folder / name)
        forged = {**facts, "files": {**facts["files"], name: digest}}
        (folder / manifest.NAME).write_text(manifest.text_of(forged))
        if name not in ("optimizer.safetensors", "state.json"):
            with pytest.raises(ToolkitError):
                load_checkpoint(folder)
        (folder / name).write_bytes(kept)
    assert not marker.exists()


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ToolkitError, match=r"must be a folder that is there, but .*nowhere is not"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_folder_of_other_things_is_told(tmp_path):
    with pytest.raises(ToolkitError, match=r"must be a folder with a manifest\.json, but"):
        load_checkpoint(tmp_path)
