"""The tables and the splitter of examples/conv_san, on runs and treebanks made by hand."""

from __future__ import annotations

import json
import lzma
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "conv_san"
sys.path.insert(0, str(ROOT / "tools"))
from run_records import Run  # noqa: E402

MODELS = ("add", "conv2d")
make_tables = runpy.run_path(str(ROOT / "tools/tables/conv_san.py"))["tables"]


def tables(runs):
    return dict(make_tables(runs, FOLDER))


def run(treebank, model, seed, accuracies, best):
    """A run with these test (and development) accuracies after its epochs."""
    validations = [
        {"update": update, "subset": subset, "accuracy": accuracy}
        for update, accuracy in enumerate(accuracies, 1)
        for subset in ("valid", "test")
    ]
    names = ("accuracy", "oov_accuracy", "ambiguous_accuracy")
    record = {
        "best": {"valid": {"test": dict.fromkeys(names, accuracies[best])}},
        "epochs": 3,
        "seconds": 360.0,
    }
    return Run(f"{treebank}/{model}/seed={seed}", record, validations)


def treebank(name):
    accuracies = ([0.5, 0.9, 0.7], [0.5, 0.92, 0.91])
    return [run(name, m, seed, a, 1) for m in MODELS for seed, a in enumerate(accuracies)]


def test_table_has_the_test_accuracy_of_the_best_epoch_and_the_papers():
    found = tables(treebank("ud/English-GUM"))
    assert found["ud"][1] == ["English-GUM", "91.00 ± 1.41 / 89.42", "91.00 ± 1.41 / 92.35"]
    assert found["cost"][1] == ["`ud`", "4", "0.40", "3", "3"]


def test_table_of_less_patience_uses_the_epoch_at_which_training_would_have_stopped():
    runs = [
        run("ud/English-GUM", MODELS[0], seed, accuracies, best)
        for seed, (accuracies, best) in enumerate(
            (([0.5, 0.4, 0.9, 0.7], 2), ([0.8, 0.7, 0.6, 0.9], 3))
        )
    ]
    assert tables(runs)["patience"][1] == ["mean of 1", "85.00"]
    assert tables(runs)["ud"][1][1].startswith("90.00 ± 0.00")


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
