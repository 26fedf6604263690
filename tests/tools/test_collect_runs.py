"""Records of runs: from save directories to runs.jsonl and back."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
from run_records import load_runs, read_lines  # noqa: E402

VALID = {"update": 9, "epoch": 1, "subset": "valid", "loss": 1.25}


def write_run(folder, seed=0, lr=0.1, signal=None):
    save_dir = folder / f"lr={lr},seed={seed}"
    save_dir.mkdir(parents=True)
    events = [
        {"event": "train", "update": 9, "loss": 2.0, "tokens_per_second": 100.0},
        {"event": "valid", **VALID, "seconds": 3.0},
    ]
    (save_dir / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    config = {
        "arch": {"name": "bert_tiny", "layers": 2},
        "task": {"name": "mlm"},
        "optimizer": {"lr": lr},
        "data": {"dirs": ["/home/someone/data"]},
        "training": {"seed": seed},
    }
    best = {"metric": "loss", "value": 1.25, "update": 9}
    result = {"updates": 9, "epochs": 1, "seconds": 4.0, "train": {"loss": 2.0}, "best": best}
    result |= {"valid": {"valid": {"loss": 1.25}}, "signal": signal, "config_digest": "ab"}
    (save_dir / "result.json").write_text(json.dumps({**result, "config": config}))


@pytest.fixture
def collect(monkeypatch, tmp_path):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["collect_runs.py", *map(str, words)])
        runpy.run_path(str(TOOLS / "collect_runs.py"), run_name="__main__")

    return call


def test_run_becomes_a_line_with_the_options_that_vary(collect, tmp_path):
    write_run(tmp_path / "sweep", lr=0.1)
    write_run(tmp_path / "sweep", lr=0.2)
    write_run(tmp_path / "sweep", lr=0.3, signal=15)
    words = ("--name", "rates", "--machine", "2 cores", "--commit", "abc")
    collect(tmp_path / "sweep", "--into", tmp_path / "runs.jsonl", *words)
    first, second = read_lines(tmp_path / "runs.jsonl")
    assert (first["run"], second["run"]) == ("rates/lr=0.1,seed=0", "rates/lr=0.2,seed=0")
    config = {"arch.name": "bert_tiny", "task.name": "mlm", "optimizer.lr": 0.2}
    assert second["config"] == config
    assert (first["seed"], first["machine"], first["commit"]) == (0, "2 cores", "abc")
    assert first["valid"] == {"valid": {"loss": 1.25}} and first["best"]["update"] == 9
    [run, _] = load_runs(tmp_path / "runs.jsonl")
    assert run.validations == [VALID] and run.config["data"]["dirs"] == ["data"]


def test_runs_are_added_and_those_of_the_same_name_replaced(collect, tmp_path):
    write_run(tmp_path / "one", seed=0)
    write_run(tmp_path / "two", seed=0)
    write_run(tmp_path / "two", seed=1)
    for name, commit in (("one", "old"), ("two", "new")):
        collect(tmp_path / name, "--into", tmp_path / "runs.jsonl", "--commit", commit)
    found = {record["run"]: record["commit"] for record in read_lines(tmp_path / "runs.jsonl")}
    assert found == {"lr=0.1,seed=0": "new", "lr=0.1,seed=1": "new"}


def test_results_of_toolkit_validate_are_stored_with_their_runs(collect, tmp_path):
    write_run(tmp_path / "bert")
    results = {"bert/lr=0.1,seed=0": {"test": {"accuracy": 0.5}}}
    (tmp_path / "bert.json").write_text(json.dumps(results))
    words = ("--name", "bert", "--results", tmp_path / "bert.json")
    collect(tmp_path / "bert", "--into", tmp_path / "runs.jsonl", *words)
    [record] = read_lines(tmp_path / "runs.jsonl")
    assert record["results"] == {"test": {"accuracy": 0.5}}


def test_unpacked_records_can_be_collected_again(collect, tmp_path):
    write_run(tmp_path / "sweep", lr=0.1)
    write_run(tmp_path / "sweep", lr=0.2)
    collect(tmp_path / "sweep", "--into", tmp_path / "runs.jsonl")
    collect("--unpack", tmp_path / "runs.jsonl", tmp_path / "again")
    collect(tmp_path / "again", "--into", tmp_path / "twice.jsonl")
    once, twice = (load_runs(tmp_path / name) for name in ("runs.jsonl", "twice.jsonl"))
    assert [(run.name, run.validations, run.config) for run in once] == [
        (run.name, run.validations, run.config) for run in twice
    ]


def test_folder_without_finished_runs_is_rejected(collect, tmp_path, capsys):
    write_run(tmp_path / "cut", signal=15)
    with pytest.raises(SystemExit) as ended:
        collect(tmp_path / "cut", "--into", tmp_path / "runs.jsonl")
    assert ended.value.code == 2 and "has no finished runs" in capsys.readouterr().err
