"""Sample sentences with a masked word for the quickstart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def samples(tmp_path, text):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    command = [sys.executable, SCRIPTS / "mask_samples.py", tmp_path / "text.txt"]
    return subprocess.run(command, capture_output=True, text=True)


def test_mask_samples_splits_paragraphs_into_sentences(tmp_path):
    found = samples(tmp_path, "The old man sat in the sun by the door. It was late. " * 4)
    assert found.returncode == 0
    assert found.stdout == "The old man sat [MASK] the sun by the door.\n" * 4


def test_mask_samples_reports_text_without_suitable_sentences_in_one_line(tmp_path):
    found = samples(tmp_path, "Short.\n" * 9)
    assert found.returncode == 1 and found.stdout == "" and found.stderr.count("\n") == 1
    assert "has no sentences of 8 to 16 words" in found.stderr
