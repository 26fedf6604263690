import os

import pytest

from toolkit.common.atomic import atomic_dir, atomic_file, delete


@pytest.mark.parametrize("sync", [False, True])
def test_atomic_file_replaces_the_file_at_the_end(tmp_path, sync):
    path = tmp_path / "a"
    path.write_text("old")
    with atomic_file(path, sync=sync) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_atomic_file_keeps_the_old_file_after_an_error(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "a") as temporary:
        temporary.write_text("ne")
        raise ZeroDivisionError
    assert (tmp_path / "a").read_text() == "old" and os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("sync", [False, True])
def test_atomic_dir_replaces_the_folder_at_the_end(tmp_path, sync):
    path = tmp_path / "a"
    for text in ("old", "new"):
        with atomic_dir(path, sync=sync) as temporary:
            (temporary / text).write_text(text)
    assert os.listdir(path) == ["new"] and os.listdir(tmp_path) == ["a"]


def test_atomic_dir_keeps_the_old_folder_after_an_error(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(ZeroDivisionError), atomic_dir(tmp_path / "a") as temporary:
        (temporary / "x").touch()
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["a"] and os.listdir(tmp_path / "a") == []


def test_delete_accepts_files_folders_links_and_nothing(tmp_path):
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    for name in ("link", "file", "folder", "missing"):
        delete(tmp_path / name)
    assert os.listdir(tmp_path) == []
