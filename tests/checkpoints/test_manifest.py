import pytest

from toolkit.checkpoints import save_folder
from toolkit.checkpoints.save_folder import (
    verify_checkpoint,
    write_manifest,
)
from toolkit.common.errors import ToolkitError


@pytest.fixture
def sealed(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(range(256)))
    write_manifest(tmp_path, {"update": 3, "reasons": ["epoch"]})
    return tmp_path


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
