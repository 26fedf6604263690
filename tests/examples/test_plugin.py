"""The plugin that docs/guides/extending.md explains works through the real commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.cli.preprocess import main as preprocess
from toolkit.cli.train import main as train_main
from toolkit.common.plugins import load_folder
from toolkit.reporting.runs import read_log
from toolkit.training.run import run

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "plugin"
USE = ["--user-dir", str(FOLDER)]


@pytest.fixture
def plugin():
    return load_folder(str(FOLDER))


def command(name, *words, folder):
    """A command in a process of its own, as a user runs it."""
    words = [sys.executable, "-m", f"toolkit.cli.{name}", *words]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parents[1])}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_plugin_trains_and_its_checkpoint_requires_it(tmp_path, monkeypatch):
    words = ["one fine day", "the sun rose over the hill", "nobody saw it", "but the birds sang"]
    (tmp_path / "a.txt").write_text("\n".join(words * 40))
    files = ["--trainpref", f"{tmp_path}/a.txt", "--destdir", f"{tmp_path}/data"]
    assert preprocess([*files, "--valid-fraction", "0.2", "--vocab-size", "40"]) == 0
    chosen = ["--arch", "distance_bert", "--task", "rarity", "--layers", "1"]
    sizes = ["--width", "16", "--heads", "2", "--max-update", "3", "--tokens-per-sample", "16"]
    monkeypatch.chdir(tmp_path)
    assert train_main(["data", *USE, *chosen, *sizes, "--save-dir", "run"]) == 0
    asked = ["data", "--path", "run/checkpoint_last"]
    without = command("validate", *asked, folder=tmp_path)
    assert without.returncode == 2
    assert "requires the plugin 'plugin', which is not loaded" in without.stderr
    found = command("validate", *asked, *USE, folder=tmp_path)
    assert found.returncode == 0 and "rarity_loss" in found.stdout, found.stderr


def test_gradient_norms_of_layers_add_up_to_that_of_the_log(plugin, config, tmp_path):
    run(config(callbacks="gradient_norms", callback__gradient_norms__interval=1, log_interval=1))
    records = read_log(tmp_path / "run" / "metrics.jsonl")
    found, whole = ([r for r in records if r["event"] == e] for e in ("gradient_norms", "train"))
    assert len(found) == len(whole) == 10
    modules = [name.removesuffix(".max") for name in found[0] if name.endswith(".max")]
    assert {"encoder.embeddings", "encoder.layers.0"} < set(modules)
    for norms, train in zip(found, whole, strict=True):
        squares = sum(norms[name] ** 2 for name in modules)
        assert squares**0.5 == pytest.approx(train["gradient_norm"], rel=1e-4)
        assert all(norms[f"{name}.max"] >= norms[name] for name in modules)
