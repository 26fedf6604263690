"""The recipes and the splitter of examples/conv_san."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "conv_san"


def test_every_row_of_the_papers_tables_has_a_recipe():
    paper = json.loads((FOLDER / "paper.json").read_text("utf-8"))
    assert len(paper["ud"]) == 44 and len(paper["penn"]) == 9
    recipes = {file.stem for file in (FOLDER / "rows").iterdir()}
    assert recipes == {*paper["penn"]} >= {*paper["ud_macro"], *paper["ud"]["English-GUM"]}


def test_split_dev_keeps_nine_tenths_for_training(tmp_path):
    sentences = [f"# {n}\n1\tword{n}\t_\n\n" for n in range(20)]
    (tmp_path / "dev.conllu.xz").write_bytes(lzma.compress("".join(sentences).encode()))
    split_dev(tmp_path / "dev.conllu.xz", tmp_path)
    assert (tmp_path / "train.conllu").read_text() == "".join(sentences[:18])
    assert (tmp_path / "dev.conllu").read_text() == "".join(sentences[18:])


def split_dev(*words):
    command = [sys.executable, FOLDER / "split_dev.py", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)
