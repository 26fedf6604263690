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


def test_the_quickstart_does_not_remove_the_text_that_it_is_given(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "quickstart.sh").write_text((SCRIPTS / "quickstart.sh").read_text())
    (tmp_path / "quickstart").mkdir()
    text = tmp_path / "quickstart" / "mine.txt"
    text.write_text("Mine.\n")
    command = ["bash", tmp_path / "scripts" / "quickstart.sh", text]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2 and "must lie outside of quickstart/" in found.stderr
    assert text.exists()
