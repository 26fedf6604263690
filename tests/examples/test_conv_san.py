"""The collector and the splitter of examples/conv_san, on runs and treebanks made by hand."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

from toolkit.common.registry import ARCHITECTURES

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "conv_san"
MODELS = ("conv_san_ud_add", "conv_san_ud_conv2d")


def run(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, FOLDER / script, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def write_run(folder: Path, model: str, seed: int, accuracies: list[float], **changes) -> None:
    """A run with these test accuracies after its epochs, of which the second was best."""
    place = folder / f"arch={model},seed={seed}"
    place.mkdir(parents=True)
    events = [{"event": "train", "update": 1, "tokens_per_second": 1000.0}]
    for update, accuracy in enumerate(accuracies, 1):
        figures = dict.fromkeys(("accuracy", "oov_accuracy", "ambiguous_accuracy"), accuracy)
        events += [
            {"event": "valid", "subset": subset, "update": update, **figures}
            for subset in ("valid", "test")
        ]
    config = {"arch": {"name": model}, "training": {"seed": seed}}
    result = {"signal": None, "best": {"update": 2}, "epochs": 3, "seconds": 360.0}
    result |= {"config": config, **changes}
    (place / "metrics.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    (place / "result.json").write_text(json.dumps(result))


def treebank(folder: Path) -> None:
    for model in MODELS:
        write_run(folder, model, 0, [0.5, 0.9, 0.7])
        write_run(folder, model, 1, [0.5, 0.92, 0.95])


def test_the_test_accuracy_of_the_best_epoch_stands_beside_the_papers(tmp_path):
    treebank(tmp_path / "English-GUM")
    found = run("collect.py", tmp_path)
    assert "| English-GUM | 91.00 ±1.41 / 89.42 | 91.00 ±1.41 / 92.35 | 2 |" in found.stdout
    assert "4 runs, 0.40 hours of one process; median 3 epochs" in found.stdout


def test_the_same_runs_may_be_seen_as_they_were_when_less_patience_ended(tmp_path):
    for seed, accuracies in enumerate(([0.5, 0.4, 0.9, 0.7], [0.8, 0.7, 0.6, 0.9])):
        best = {"update": 3 + seed}
        write_run(tmp_path / "English-GUM", MODELS[0], seed, accuracies, best=best)
    for patience, mean in ((1, "65.00"), (2, "85.00"), (3, "90.00")):
        found = run("collect.py", tmp_path, "--patience", patience).stdout
        assert f"| English-GUM | {mean} ±" in found
    assert "| English-GUM | 90.00 ±0.00" in run("collect.py", tmp_path).stdout


def test_reduced_treebanks_are_not_compared_with_the_paper(tmp_path):
    treebank(tmp_path / "ud" / "English-GUM")
    treebank(tmp_path / "reduced" / "Czech-CAC")
    found = run("collect.py", tmp_path / "ud", "--reduced", tmp_path / "reduced").stdout
    assert "| Czech-CAC (reduced) | 91.00 ±1.41 | 91.00 ±1.41 | 2 |" in found
    assert "| mean (2) | 91.00 ±1.41 | 91.00 ±1.41 |  |" in found
    assert "| mean of the paper's (1) | 91.00 ±1.41 / 89.42 |" in found


def test_a_model_that_lacks_a_treebank_has_no_mean_over_all(tmp_path):
    treebank(tmp_path / "ud" / "English-GUM")
    write_run(tmp_path / "reduced" / "Czech-CAC", MODELS[0], 0, [0.5, 0.7])
    found = run("collect.py", tmp_path / "ud", "--reduced", tmp_path / "reduced").stdout
    assert "| mean (2) | 80.50 | - |  |" in found
    complete, every = found.split("The same over all 2 treebanks")
    assert "| conv2d | 91.00 ±1.41 |" in complete and "| conv2d | - | - | - |" in every


def test_interrupted_runs_do_not_count(tmp_path):
    write_run(tmp_path / "English-GUM", MODELS[0], 0, [0.5, 0.9], signal=15)
    found = run("collect.py", tmp_path)
    assert found.returncode == 2 and "holds no finished run" in found.stderr


def test_records_are_copied_without_anything_else(tmp_path):
    treebank(tmp_path / "runs" / "English-GUM")
    log = tmp_path / "runs" / "English-GUM" / f"arch={MODELS[0]},seed=0" / "log.txt"
    log.write_text("long")
    run("collect.py", tmp_path / "runs", "--copy", tmp_path / "kept")
    names = {path.name for path in (tmp_path / "kept").rglob("*") if path.is_file()}
    assert names == {"result.json", "metrics.jsonl"}


def test_the_papers_models_are_architectures():
    paper = json.loads((FOLDER / "paper.json").read_text("utf-8"))
    names = {*paper["ud_macro"], *paper["penn"], *paper["ud"]["English-GUM"]}
    assert len(names) == 14 and all(name in ARCHITECTURES for name in names)
    assert len(paper["ud"]) == 44


def test_nine_tenths_of_a_development_part_are_trained_on(tmp_path):
    sentences = [f"# {n}\n1\tword{n}\t_\n\n" for n in range(20)]
    (tmp_path / "dev.conllu.xz").write_bytes(lzma.compress("".join(sentences).encode()))
    run("split_dev.py", tmp_path / "dev.conllu.xz", tmp_path)
    assert (tmp_path / "train.conllu").read_text() == "".join(sentences[:18])
    assert (tmp_path / "dev.conllu").read_text() == "".join(sentences[18:])


def test_a_development_part_that_is_not_there_is_told_in_one_line(tmp_path):
    found = run("split_dev.py", tmp_path / "*-dev.conllu*", tmp_path)
    assert found.returncode == 1 and found.stderr.count("\n") == 1
    assert "-dev.conllu* must be one development part, .conllu or .xz, but is none." in found.stderr
