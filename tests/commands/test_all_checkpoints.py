"""--all-checkpoints of toolkit-validate: each checkpoint of a run is evaluated once."""

from __future__ import annotations

import json
import shutil

import pytest

from toolkit import build_model
from toolkit.checkpoints.save_folder import write_manifest
from toolkit.cli.plot import main as plot
from toolkit.cli.validate import main as validate
from toolkit.commands import completions
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.runs import read_results

PAIRS = {"verbs": ["cats see", "dogs run"], "nouns": ["a man sat", "the cat sat"]}


@pytest.fixture
def trained(tmp_path):
    """Two runs of other seeds, with a checkpoint after 10 and after about 20 words."""
    tokenizer = Tokenizer.train(["the cat sat", "a man sees dogs"], kind="words")
    for seed in (1, 2):
        for update in (1, 2):
            model = build_model("bert_tiny", tokenizer=tokenizer, task="mlm", layers=1)
            add_checkpoint(tmp_path / f"run,seed={seed}", model, update, words=10 * update)
    for name, sentences in PAIRS.items():
        rows = [{"sentence_good": s, "sentence_bad": f"{s} {s}"} for s in sentences]
        lines = [json.dumps({**row, "linguistics_term": name}) + "\n" for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    return tmp_path


def add_checkpoint(folder, model, update, words):
    folder.mkdir(exist_ok=True)
    model.save(folder / "model")
    set_clock(shutil.move(folder / "model", folder / f"checkpoint_e1_u{update}"), update, words)


def set_clock(checkpoint, update, words=None):
    (checkpoint / "manifest.json").unlink()
    write_manifest(checkpoint, {"update": update, "words": words})


def ask(folder, *more, runs=("run,seed=1", "run,seed=2")):
    files = [str(folder / f"{name}.jsonl") for name in PAIRS]
    paths = ["--path", *(str(folder / run) for run in runs)]
    words = ["--task", "completions", "--all-checkpoints", "--precision", "fp32"]
    return validate([*files, *paths, *words, "--results-path", str(folder / "all"), *more])


def read(folder):
    return [json.loads(line) for line in (folder / "all").read_text().splitlines()]


def test_a_repeated_command_evaluates_what_its_file_of_results_lacks(trained, monkeypatch, capsys):
    loaded, load = [], completions.load_checkpoint
    monkeypatch.setattr(
        completions, "load_checkpoint", lambda path, **o: loaded.append(path) or load(path, **o)
    )
    assert ask(trained, runs=["run,seed=1"]) == 0
    with (trained / "all").open("a") as file:
        file.write('{"task": "completions", "pa')  # a writer was killed
    assert ask(trained) == 0
    names = [f"{run}/checkpoint_e1_u{n}" for run in ("run,seed=1", "run,seed=2") for n in (1, 2)]
    assert loaded == [record["path"] for record in read(trained)]
    assert loaded == [str(trained / name) for name in names]
    assert [(it["update"], it["words"]) for it in read(trained)] == [(1, 10), (2, 20)] * 2
    printed = capsys.readouterr().out
    assert "accuracy by words" in printed and "verbs" in printed


def test_results_of_other_options_or_weights_are_not_mixed(trained, capsys):
    assert ask(trained) == 0
    assert ask(trained, "--limit", "1") == 2
    error = capsys.readouterr().err
    assert "run,seed=1/checkpoint_e1_u1 with other weights, data or options" in error
    shutil.rmtree(trained / "run,seed=1" / "checkpoint_e1_u1")
    other = build_model("bert_tiny", tokenizer=Tokenizer.train(["a man"], kind="words"), task="mlm")
    add_checkpoint(trained / "run,seed=1", other, 1, 10)
    assert ask(trained) == 2 and "with other weights" in capsys.readouterr().err


@pytest.mark.slow
def test_results_are_drawn_by_words_in_a_panel_for_each_group(trained):
    assert ask(trained) == 0
    image = trained / "curve.svg"
    words = ["curve", str(trained / "all"), "--metric", "accuracy", "--x-axis", "words"]
    assert plot([*words, "--output", str(image)]) == 0
    text = image.read_text()
    panels = [f"<!-- {name} accuracy (%) -->" for name in ("overall", "verbs", "nouns")]
    assert all(panel in text for panel in panels) and "2 seeds" in text
    assert [len(run.records) for run in read_results(trained / "all")] == [6, 6]


def test_a_run_without_a_count_of_words_is_an_error(trained, capsys):
    for update in (1, 2):
        set_clock(trained / "run,seed=2" / f"checkpoint_e1_u{update}", update)
    assert ask(trained) == 0
    assert "accuracy by updates" in capsys.readouterr().out
    words = ["curve", str(trained / "all"), "--metric", "accuracy", "--x-axis", "words"]
    assert plot([*words, "--output", str(trained / "curve.svg")]) == 2
    assert "run,seed=2 has not counted them" in capsys.readouterr().err
    with pytest.raises(ToolkitError, match="results of toolkit-validate --all-checkpoints"):
        read_results(trained / "verbs.jsonl")
