import shutil

import pytest

from toolkit.checkpoints.save_folder import find_saved_run


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
