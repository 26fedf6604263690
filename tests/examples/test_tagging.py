"""Arguments that examples/tagging rejects before training."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "tagging" / "fine_tune.sh"


@pytest.mark.parametrize(
    ("folders", "message"), [(["a/taco", "c/bert"], "c/bert has no checkpoint_best")]
)
def test_save_directories_with_equal_names_or_no_checkpoint_are_rejected(
    tmp_path, folders, message
):
    for name in ("a/taco", "b/taco", "words"):
        (tmp_path / name / "checkpoint_best").mkdir(parents=True)
    words = ["bash", SCRIPT, "treebank", *folders]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 2 and message in found.stderr
    assert not (tmp_path / "tagging-data").exists()
