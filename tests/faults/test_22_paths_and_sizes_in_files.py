"""Fault 22: files that name others outside of their folder, or declare absurd sizes.

There are no archives to unpack: a checkpoint and a data folder are folders. What could be done
with an archive is tried with the names and sizes in their JSON and in the headers of tensors.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.helpers.signed_files import sign_files, sign_json, sign_manifest
from toolkit import load_checkpoint
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.cli.inspect import main as inspect
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256_file
from toolkit.data.storage.data_folder import DataFolder

OUTSIDE = ["../secret", "/etc/hostname", "a/../../secret", "\0", ".."]


@pytest.fixture
def folder(trained):
    (trained / "secret").write_text("out of reach")
    return (trained / "checkpoint_last").resolve()


def refused(folder, message):
    with pytest.raises(ToolkitError, match=message) as caught:
        load_checkpoint(folder)
    return str(caught.value)


@pytest.mark.parametrize("name", OUTSIDE)
def test_checkpoint_file_name_outside_the_folder_is_rejected(folder, name):
    files = read_manifest(folder).files
    outside = {name: sha256_file(folder.parent / "secret")}
    sign_manifest(folder, files={**files, **outside})
    message = refused(folder, r"must name files of its own folder, but names|must be readable")
    assert "out of reach" not in message


def test_checkpoint_link_outside_the_folder_is_rejected(folder):
    os.symlink(folder.parent / "secret", folder / "notes")
    files = read_manifest(folder).files
    sign_manifest(folder, files={**files, "notes": sha256_file(folder / "notes")})
    refused(folder, r"must name files of its own folder, but names 'notes'")


@pytest.mark.parametrize("device", ["/dev/zero", "loop", "pipe"])
@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
def test_devices_pipes_and_loops_are_not_read(folder, name, device):
    (folder / name).unlink()
    if device == "pipe":
        os.mkfifo(folder / name)
    else:
        os.symlink(folder / name if device == "loop" else device, folder / name)
    refused(folder, "regular file|must name files of its own|is missing|Too many levels of")


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "tokenizer_config.json"])
def test_oversized_json_is_rejected_unread(folder, name):
    with open(folder / name, "r+b") as file:
        file.truncate(1 << 36)  # sparse: 64 GiB that need no disk space
    if name == "manifest.json":
        refused(folder, r"must have at most 16,777,216 bytes, but has 68,719,476,736")
        return
    text = (folder / "manifest.json").read_text()
    os.truncate(folder / name, (16 << 20) + 1)
    (folder / "manifest.json").write_text(text)
    sign_files(folder, name)
    refused(folder, name)


@pytest.mark.parametrize(
    "header",
    [b"\xff" * 8, (99 << 20).to_bytes(8, "little"), (2).to_bytes(8, "little") + b"[]"],
)
def test_foreign_headers_of_tensor_files_are_rejected(folder, header):
    with open(folder / "model.safetensors", "wb") as file:
        file.write(header)
        file.truncate(100 << 20)
    name = "model.safetensors"
    sign_files(folder, name)
    refused(folder, r"must hold safetensors, but does not")


@pytest.fixture
def meta(data, tmp_path):
    """Rewrites the metadata of a data folder with a correct digest; returns the folder."""
    path = shutil.copytree(data, tmp_path / "data")

    def rewrite(change):
        found = json.loads((path / "meta.json").read_text())
        change(found)
        sign_json(path / "meta.json", found)
        return path

    return rewrite


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname"])
def test_data_file_name_outside_the_folder_is_rejected(meta, tmp_path, name):
    (tmp_path / "secret").write_text("out of reach")
    path = meta(lambda found: found["files"].update({name: "0" * 64}))
    with pytest.raises(FileNotFoundError, match=f"{path}/{os.path.basename(name)}"):
        DataFolder.open(path)


@pytest.mark.parametrize("name", ["../tokens", "/etc/tokens"])
def test_columns_outside_a_data_folder_are_not_opened(meta, name):
    def change(found):
        columns = found["splits"]["train"]["columns"]
        columns[name] = columns.pop("tokens")

    with pytest.raises(ToolkitError, match=r"expected the name of a file"):
        DataFolder.open(meta(change))


@pytest.mark.parametrize("device", ["/dev/zero", "nowhere", "loop", "pipe"])
def test_devices_pipes_and_links_in_a_data_folder_are_not_read(data, tmp_path, device, capfd):
    for name in sorted(file.name for file in data.iterdir() if file.is_file()):
        path = shutil.copytree(data, tmp_path / name)
        (path / name).unlink()
        if device == "pipe":
            os.mkfifo(path / name)
        else:
            os.symlink(name if device == "loop" else device, path / name)
        assert inspect([str(path), "--verify"]) == 2, name
        assert capfd.readouterr().err.count("\n") == 1
