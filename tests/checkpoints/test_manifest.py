import pytest

from tests.helpers.signed_files import sign_manifest
from toolkit.checkpoints import save_folder
from toolkit.checkpoints.save_folder import (
    read_manifest,
    resolve_inside,
    verify_checkpoint,
    write_manifest,
)
from toolkit.common.errors import ToolkitError


@pytest.fixture
def sealed(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(256)))
    write_manifest(tmp_path, {"update": 3, "reasons": ["epoch"]})
    return tmp_path


def test_read_detects_flipped_bits_of_the_manifest(sealed):
    path = sealed / "manifest.json"
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 5):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ToolkitError):
            read_manifest(sealed)


def test_verify_names_a_changed_file(sealed):
    (sealed / "weights").write_bytes(bytes(255) + b"\xff")
    with pytest.raises(ToolkitError, match=r"weights must have the digest in its manifest.json"):
        verify_checkpoint(sealed)


def test_verify_names_an_unreadable_file(sealed, monkeypatch):
    def broken(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(save_folder, "sha256_file", broken)
    with pytest.raises(ToolkitError, match=r"weights must be readable, but is not: .*Input/output"):
        verify_checkpoint(sealed)


@pytest.mark.parametrize("files", [[], {"a": 1}, {f"{n}": "" for n in range(10_001)}])
def test_read_rejects_a_malformed_file_table(sealed, files):
    sign_manifest(sealed, files=files)
    with pytest.raises(ToolkitError, match=r"manifest.json: files"):
        read_manifest(sealed)


@pytest.mark.parametrize("name", ["../weights", "\0", "link"])
def test_verify_rejects_names_outside_the_folder(sealed, name):
    (sealed / "link").symlink_to("/etc/hostname")
    with pytest.raises(ToolkitError, match="must name files of its own folder, but names"):
        resolve_inside(sealed, name)


@pytest.mark.parametrize("text", ["", "[1]", "[" * 100_000])
def test_read_rejects_other_json(sealed, text):
    (sealed / "manifest.json").write_text(text)
    with pytest.raises(ToolkitError, match=r"manifest"):
        read_manifest(sealed)
