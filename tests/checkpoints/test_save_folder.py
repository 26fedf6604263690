import os
import shutil

import pytest

from toolkit.checkpoints.save_folder import BEST, LAST, SaveFolder, verify_checkpoint
from toolkit.common.errors import ToolkitError


@pytest.fixture
def saves(tmp_path):
    return SaveFolder(tmp_path)


def write(saves, update, *, epoch=1, reasons=("interval",), text="x"):
    facts = {"update": update, "epoch": epoch, "reasons": list(reasons)}
    name = f"checkpoint_e{epoch}_u{update}"
    return saves.write(name, lambda folder: (folder / "a.txt").write_text(text), facts)


def names(saves):
    return sorted(path.name for path in saves.path.iterdir())


def test_links_are_relative_and_replaced(saves):
    for update in (1, 2):
        write(saves, update)
        saves.link(LAST, f"checkpoint_e1_u{update}")
    assert os.readlink(saves.path / LAST) == "checkpoint_e1_u2"
    assert saves.resolve_link(LAST).name == "checkpoint_e1_u2" and saves.resolve_link(BEST) is None


def test_resume_candidates_start_with_the_last_then_the_newest(saves):
    for update in (1, 2, 3):
        write(saves, update)
    saves.link(LAST, "checkpoint_e1_u2")
    assert [path.name[-1] for path in saves.resume_candidates()] == ["2", "3", "1"]


def test_delete_checkpoints_keeps_linked_ones(saves):
    for update in (1, 2, 3, 4):
        write(saves, update)
    saves.link(BEST, "checkpoint_e1_u1")
    saves.link(LAST, "checkpoint_e1_u2")
    saves.delete_checkpoints(saves.checkpoints())
    assert names(saves) == [BEST, "checkpoint_e1_u1", "checkpoint_e1_u2", LAST]


def test_prepare_cleans_up_after_a_crash(saves):
    write(saves, 1).rename(saves.path / ".checkpoint_e1_u1.old.tmp")
    (saves.path / ".checkpoint_e1_u1.77.tmp").mkdir()
    (saves.path / ".checkpoint_e1_u1.77.tmp" / "half").write_text("")
    (saves.path / ".checkpoint_last.77.tmp").symlink_to("checkpoint_e1_u1")
    saves.prepare()
    saves.lock.release()
    assert names(saves) == ["checkpoint_e1_u1"]


def copy_following_links(saves, folder):
    """What scp -r leaves of a save folder."""
    shutil.copytree(saves.path, folder)
    return SaveFolder(folder)


def test_copies_of_checkpoints_become_links_again(saves, tmp_path_factory):
    for update in (1, 2):
        write(saves, update)
    saves.link(BEST, "checkpoint_e1_u1")
    saves.link(LAST, "checkpoint_e1_u2")
    copied = copy_following_links(saves, tmp_path_factory.mktemp("other") / "run")
    copied.prepare()
    copied.lock.release()
    assert names(copied) == names(saves)
    for link in (BEST, LAST):
        assert (copied.path / link).readlink() == (saves.path / link).readlink()


@pytest.mark.parametrize("original", ["missing", "damaged"])
def test_a_copy_takes_the_place_of_its_checkpoint(saves, tmp_path_factory, original):
    folder = write(saves, 1)
    saves.link(LAST, folder.name)
    copied = copy_following_links(saves, tmp_path_factory.mktemp("other") / "run")
    if original == "missing":
        shutil.rmtree(copied.path / folder.name)
    else:
        (copied.path / folder.name / "a.txt").write_text("y")
    assert copied.resolve_link(LAST) == copied.path / LAST  # for commands that only read
    copied.prepare()
    copied.lock.release()
    assert names(copied) == [folder.name, LAST]
    assert verify_checkpoint(copied.resolve_link(LAST)).update == 1


def test_a_damaged_copy_is_reported(saves, tmp_path_factory):
    saves.link(LAST, write(saves, 1).name)
    copied = copy_following_links(saves, tmp_path_factory.mktemp("other") / "run")
    (copied.path / LAST / "a.txt").write_text("y")
    with pytest.raises(ToolkitError, match=r"checkpoint_last/a\.txt must have the digest"):
        copied.prepare()
