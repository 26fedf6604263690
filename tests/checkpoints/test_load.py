"""Checkpoints as they are read: files of other versions, saved runs, weights."""

import shutil

import pytest
import torch

from toolkit import load_checkpoint
from toolkit.checkpoints.load import check_data_matches_checkpoint, find_checkpoint
from toolkit.checkpoints.save_folder import find_saved_run
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer
from toolkit.data.tokenizers.word_level import FAIRSEQ_SPECIAL, WordLevelTokenizer
from toolkit.distributed import World
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


def words(*known):
    return WordLevelTokenizer.from_symbols([*FAIRSEQ_SPECIAL, *known])


def pair(source, target):
    return ParallelTokenizer(words("cat"), None, source_lang=source, target_lang=target)


def test_data_with_another_vocabulary_are_rejected_with_both_names():
    with pytest.raises(
        ToolkitError, match=r"of run, but that of data differs.*--tokenizer-from run\."
    ):
        check_data_matches_checkpoint(words("cat"), "data", words("dog"), "run")
    check_data_matches_checkpoint(words("cat"), "data", words("cat"), "run")


def test_data_in_the_other_direction_are_rejected_despite_a_joined_vocabulary():
    message = r"of run, but that of data differs: one translates de-en, the other en-de\."
    with pytest.raises(ToolkitError, match=message):
        check_data_matches_checkpoint(pair("de", "en"), "data", pair("en", "de"), "run")


def test_other_names_of_the_languages_are_accepted():
    check_data_matches_checkpoint(pair("eng", "deu"), "data", pair("en", "de"), "run")
    check_data_matches_checkpoint(pair("en", "en"), "data", pair("en", "en"), "run")


def test_saved_run_is_that_of_the_last_checkpoint(trained):
    found = find_saved_run(str(trained), "")
    assert found.checkpoint == str(trained / "checkpoint_e2_u10") and found.in_save_dir
    assert found.options["arch"]["name"] == "composite_bert_tiny"


def test_damaged_options_are_skipped(trained):
    damage = '{"run": {"arch": "x"}}'
    (trained / "checkpoint_e2_u10" / "config.json").write_text(damage)
    assert find_saved_run(str(trained), "").checkpoint == str(trained / "checkpoint_e1_u5")
    (trained / "checkpoint_e1_u5" / "manifest.json").write_text(damage)
    assert find_saved_run(str(trained), "") is None


def test_folder_without_checkpoints_has_no_saved_run(tmp_path):
    assert find_saved_run(str(tmp_path), "") is None
    assert find_saved_run(str(tmp_path / "none"), "nowhere") is None


@pytest.mark.parametrize("name", ["", "checkpoint_e1_u5"])
def test_restore_file_names_a_checkpoint_or_a_save_folder(trained, tmp_path, name):
    found = find_saved_run(str(tmp_path / "new"), str(trained / name))
    assert found.checkpoint == str(trained / (name or "checkpoint_e2_u10"))
    assert not found.in_save_dir


def test_restore_file_of_another_run_is_ignored_once_there_are_checkpoints(trained, tmp_path):
    other = shutil.copytree(trained, tmp_path / "other", symlinks=True)
    assert find_saved_run(str(trained), str(other)).checkpoint.startswith(str(trained))
    first = trained / "checkpoint_e1_u5"
    assert find_saved_run(str(trained), str(first)).checkpoint == str(first)
