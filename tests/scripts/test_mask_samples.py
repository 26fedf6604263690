"""Sentences of a text with a hidden word, for the quickstart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def samples(tmp_path, text):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    command = [sys.executable, SCRIPTS / "mask_samples.py", tmp_path / "text.txt"]
    return subprocess.run(command, capture_output=True, text=True)


def test_of_lines_that_are_paragraphs_sentences_are_taken(tmp_path):
    found = samples(tmp_path, "The old man sat in the sun by the door. It was late. " * 4)
    assert found.returncode == 0
    assert found.stdout == "The old man sat [MASK] the sun by the door.\n" * 4


def test_a_text_without_such_sentences_is_told_in_one_line(tmp_path):
    found = samples(tmp_path, "Short.\n" * 9)
    assert found.returncode == 1 and found.stdout == "" and found.stderr.count("\n") == 1
    assert "must have sentences of 8 to 16 words, but none was found" in found.stderr
