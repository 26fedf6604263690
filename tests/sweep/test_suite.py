"""toolkit-train --suite: each task of a suite is fine-tuned with its own settings."""

from __future__ import annotations

import json

import pytest
import yaml

from toolkit import build_model
from toolkit.cli.train import main
from toolkit.cli.validate import main as validate
from toolkit.config.yaml_files import SUITE, read_recipes, read_yaml
from toolkit.data.storage.meta import read_meta
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.sweep import suite as suite_module, sweep as sweep_module

SETTINGS = {
    "seeds": [3, 4],
    "train": {
        "task": {"head": "gelu", "tokens_per_sample": 512},
        "optimizer": {"lr": 0.01},
        "data": {"batch_size": 4},
        "training": {"max_epoch": 2, "best_metric": "accuracy"},
    },
    "tasks": {
        "rte": {"text_columns": "sentence1,sentence2"},
        "wsc": {
            "text_columns": 'Is "{pronoun}" the {noun}?,text',
            "train": {"training": {"best_metric": "f1", "max_epoch": 3}},
        },
        "boolq": {"text_columns": "question,passage"},
    },
}
RTE = [{"sentence1": "the cat sat", "sentence2": "a man sat", "label": n % 2} for n in range(8)]
WSC = [
    {"pronoun": "it", "noun": "cat", "text": "the cat sat", "label": int(n < 6)} for n in range(8)
]


@pytest.fixture
def files(tmp_path):
    """A pre-trained model, the files of two tasks, and a suite of three."""
    tokenizer = Tokenizer.train(['the cat sat a man Is "it" ?'], kind="words")
    options = {"layers": 1, "width": 16, "heads": 2, "max_positions": 32}
    build_model("bert_tiny", tokenizer=tokenizer, task="mlm", **options).save(tmp_path / "model")
    for name, rows in (("rte", RTE), ("wsc", WSC)):
        for split in ("train", "valid"):
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{name}.{split}.jsonl").write_text(lines)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(SETTINGS, sort_keys=False))
    return tmp_path


def ask(files, *more, suite="own.yaml"):
    words = [str(files), "--suite", str(files / suite), "--finetune-from", str(files / "model")]
    return main([*words, "--save-dir", str(files / "tuned"), "--num-workers", "0", *more])


@pytest.fixture
def jobs(monkeypatch):
    """The jobs that would be run, and the options of each training; none is run."""
    found: dict[str, dict] = {}

    def run_all(jobs, slots, callback):
        for job in jobs:
            config = json.loads((job.folder / "options.yaml").read_text())
            found[job.name] = config
            best = config["training"]["best_metric"]
            number = 0.5 + (config["training"]["seed"] - 3) / 10
            result = {"signal": None, "config": config, "valid": {"valid": {best: 0.0}}}
            result["best"] = {"valid": {"valid": {best: number}}}
            (job.folder / "result.json").write_text(json.dumps(result))
        return 0

    monkeypatch.setattr(sweep_module, "run_all", run_all)
    monkeypatch.setattr(suite_module, "run_all", run_all)
    return found


def test_each_task_has_its_settings_unless_the_command_line_replaces_them(files, jobs, capsys):
    assert ask(files, "--lr", "0.5", "--max-update", "9") == 0
    trained = [f"{task}/seed={seed}" for task in ("rte", "wsc") for seed in (3, 4)]
    predicted = [f"predictions of {task}/seed=3" for task in ("rte", "wsc")]
    assert list(jobs) == [*trained, *predicted]
    rte, wsc = jobs["rte/seed=3"], jobs["wsc/seed=4"]
    assert (rte["optimizer"]["lr"], rte["data"]["batch_size"]) == (0.5, 4)
    assert (rte["training"]["max_update"], rte["training"]["max_epoch"]) == (9, None)
    assert rte["task"]["tokens_per_sample"] == 32, "as the model allows"
    assert [it["training"]["best_metric"] for it in (rte, wsc)] == ["accuracy", "f1"]
    assert "boolq is left out: No such file: " in capsys.readouterr().out


def test_the_table_has_means_deviations_and_constant_answers(files, jobs, capsys):
    assert ask(files) == 0
    assert jobs["rte/seed=3"]["training"]["max_epoch"] == 2
    assert jobs["wsc/seed=3"]["training"]["max_epoch"] == 3
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["rte", "accuracy", "8", "0.50000", "0.55000", "0.07071", "2"] in lines
    assert ["wsc", "f1", "8", "0.85714", "0.55000", "0.07071", "2"] in lines
    assert ["boolq", *"------"] in lines
    assert ["mean", "of", "2", *"---", "0.55000", "0.07071", "2"] in lines
    tasks = json.loads((files / "tuned" / "suite.json").read_text())["tasks"]
    assert tasks[0]["seeds"] == {"3": 0.5, "4": 0.6}


@pytest.mark.slow
def test_data_are_preprocessed_once_and_again_for_other_files(files, jobs, capsys):
    assert ask(files) == 0 and "rows in" in capsys.readouterr().out
    assert ask(files) == 0 and "rows in" not in capsys.readouterr().out
    with (files / "rte.train.jsonl").open("a") as file:
        file.write(json.dumps(RTE[0]) + "\n")
    assert ask(files, "--save-dir", str(files / "other")) == 0
    assert capsys.readouterr().out.count("rows in") == 2
    [data] = (files / "other" / "data").glob("rte-*")
    assert read_meta(data).splits["train"]["labels"] == {"0": 5, "1": 4}


def test_what_a_suite_cannot_do_is_one_line(files, jobs, capsys):
    def error(*more, **options):
        assert ask(files, *more, **options) == 2
        return capsys.readouterr().err

    assert "nothing'. Known: babylm-2025-glue, superglue." in error(suite="nothing")
    assert "--suite cannot be combined with --grid" in error("--grid", "lr=1,2")
    (files / "bad.yaml").write_text("seeds: [one]\ntasks: {}\n")
    assert "bad.yaml: seeds[0]" in error(suite="bad.yaml")
    (files / "bad.yaml").write_text("seeds: [1]\ntasks: {../wsc: {label_column: label}}\n")
    assert "expected the name of a file" in error(suite="bad.yaml")
    (files / "wsc.valid.jsonl").unlink()
    (files / "rte.train.jsonl.gz").write_bytes(b"")
    assert "no task of --suite" in error()
    words = [str(files), "--suite", str(files / "own.yaml")]
    assert main([*words, "--arch", "bert_tiny"]) == 2
    assert "--suite requires --finetune-from" in capsys.readouterr().err
    assert main(words) == 2 and "or --finetune-from, a checkpoint" in capsys.readouterr().err


def test_two_files_of_one_name_are_reported(files, jobs, capsys):
    (files / "rte.train.jsonl.gz").write_bytes(b"")
    assert ask(files) == 0 and next(iter(jobs)) == "wsc/seed=3"
    text = "must hold one rte.train.jsonl, but holds rte.train.jsonl and rte.train.jsonl.gz."
    assert text in capsys.readouterr().out


@pytest.mark.slow
def test_the_predictions_are_those_of_the_best_checkpoint(files):
    (files / "rte.valid.jsonl").unlink()
    assert ask(files, "--seeds", "3", "--sweep.jobs", "1") == 0
    run, [data] = files / "tuned" / "wsc" / "seed=3", (files / "tuned" / "data").glob("wsc-*")
    other = files / "other.tsv"
    assert validate([str(data), "--path", str(run), "--predictions", str(other)]) == 0
    assert (run / "predictions.tsv").read_text() == other.read_text()
    assert len(other.read_text().splitlines()) == 9
    [row] = [it for it in read_tasks(files) if it["task"] == "wsc"]
    result = json.loads((run / "result.json").read_text())
    assert row["seeds"] == {"3": result["best"]["valid"]["valid"]["f1"]}


@pytest.mark.slow
def test_options_of_choices_are_predicted_too(files):
    rows = [
        {"text": "a man sat", "choices": ["the cat", "a cat"], "label": n % 2} for n in range(4)
    ]
    for split in ("train", "valid"):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (files / f"copa.{split}.jsonl").write_text(lines)
    train = {"task": {"name": "multiple_choice"}, "training": {"max_epoch": 1}}
    copa = {"text_columns": "text,choices", "label_type": "option", "train": train}
    (files / "copa.yaml").write_text(yaml.safe_dump({"seeds": [3], "tasks": {"copa": copa}}))
    assert ask(files, suite="copa.yaml") == 0
    written = (files / "tuned" / read_tasks(files)[0]["predictions"]).read_text().splitlines()
    assert written[0] == "row,label" and len(written) == 5
    assert {line.split(",")[1] for line in written[1:]} <= {"0", "1"}


def read_tasks(files):
    return json.loads((files / "tuned" / "suite.json").read_text())["tasks"]


def test_suites_of_the_package_can_be_read():
    trees = {name: read_yaml(SUITE + name) for name in read_recipes(SUITE)}
    for tree in trees.values():
        if "tasks" in tree:
            suite_module.convert(tree, suite_module.Suite)
    names = ["boolq", "mnli", "mrpc", "multirc", "qqp", "rte", "wsc"]
    assert [*trees["babylm-2025-glue"]["tasks"]] == names
    assert {"cb", "copa", "wic"} <= trees["superglue"]["tasks"].keys()
