import os
import stat
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from toolkit.common.files import atomic_dir, atomic_file, check_output, delete


def test_the_next_file_deletes_what_killed_processes_left(tmp_path):
    left = tmp_path / f".a.{2**22 + 1}.tmp"
    left.touch()
    check_output(tmp_path / "a")
    assert not left.exists()
    left.touch()
    with atomic_file(tmp_path / "a") as temporary:
        temporary.touch()
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("system", ["linux", "another"])
def test_atomic_dir_replaces_the_folder_at_the_end(tmp_path, sync, system, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    path = tmp_path / "a"
    for text in ("old", "new"):
        with atomic_dir(path, sync=sync) as temporary:
            (temporary / text).write_text(text)
    assert os.listdir(path) == ["new"] and os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is renamed twice")
def test_a_folder_lies_there_at_every_step_of_its_replacement(tmp_path):
    path, there, watching = tmp_path / "a", [], False

    def look(event, arguments):
        if watching and event.startswith(("os.", "shutil.")):
            there.append((path / "old").exists() or (path / "new").exists())

    sys.addaudithook(look)
    for text in ("old", "new"):
        watching = text == "new"
        with atomic_dir(path) as temporary:
            (temporary / text).write_text(text)
    watching = False
    assert len(there) > 3 and all(there) and os.listdir(path) == ["new"]


def test_delete_accepts_files_folders_links_and_nothing(tmp_path):
    (tmp_path / "folder" / "in").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("folder")
    for name in ("link", "file", "folder", "missing"):
        delete(tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.fixture
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.parametrize("umask", [0o027], indirect=True, ids=oct)
def test_files_of_atomic_dirs_have_the_permissions_of_the_umask(tmp_path, umask):
    with atomic_dir(tmp_path / "run") as folder:
        (folder / "shards").mkdir()
        for file in (folder / "a.safetensors", folder / "shards" / "b.safetensors"):
            save_file({"x": np.zeros(3)}, file)
        (folder / "config.json").write_text("{}")
        (folder / "script").touch(0o777)
        (folder / "link").symlink_to("missing")
    modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in tmp_path.rglob("*.*")}
    assert modes == dict.fromkeys(["a.safetensors", "b.safetensors", "config.json"], 0o666 & ~umask)
    assert stat.S_IMODE((tmp_path / "run" / "script").stat().st_mode) == 0o777 & ~umask
