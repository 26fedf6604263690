"""examples/speedrun: which runs the verifier accepts, and the loss that it measures."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from toolkit import train
from toolkit.data.storage.data_folder import open_folder

VERIFY = Path(__file__).resolve().parents[2] / "examples" / "speedrun" / "verify.py"


@pytest.fixture
def verify(data):
    """The verifier's functions, with the test's data as the text of the rules."""
    scope = runpy.run_path(str(VERIFY))["row"].__globals__
    scope.update(TEXT=open_folder(data).digest, TARGET=100.0)
    return scope


@pytest.fixture
def run(data, tmp_path, verify):
    """A folder with the records of a run that follows the rules."""
    start = {"data": [{"fingerprint": verify["TEXT"]}], "resumed_from": None, "gpus": ["GPU X"]}
    result = {"seconds": 61.7, "updates": 1500, "words": 2_000_000, "parameters": 9}
    result["config"] = {"checkpoint": {"finetune_from": None}}
    (tmp_path / "environment.json").write_text(json.dumps([start]))
    (tmp_path / "result.json").write_text(json.dumps(result))
    verify["masked_loss"] = lambda data, run: 5.0
    return tmp_path


def test_row_has_loss_seconds_and_machine(data, verify, run):
    found = verify["row"](data, run)
    assert found == [run.name, "5.0000", "62", "1,500", "2,000,000", "9", "GPU X"]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("environment.json", "}]", "}, {}]", "must be trained in one start, but has 2"),
        ("environment.json", '"fingerprint": "', '"fingerprint": "0', "on the data folder of the"),
        ("environment.json", '"resumed_from": null', '"resumed_from": "a"', "started from a"),
        ("result.json", '"finetune_from": null', '"finetune_from": "b"', "started from b"),
    ],
)
def test_runs_that_break_a_rule_are_rejected(data, verify, run, file, old, new, message):
    text = (run / file).read_text()
    (run / file).write_text(text[: text.rindex(old)] + new + text[text.rindex(old) + len(old) :])
    with pytest.raises(SystemExit, match=message):
        verify["row"](data, run)


def test_a_run_above_the_target_is_rejected(data, verify, run):
    verify["TARGET"] = 4.9
    with pytest.raises(SystemExit, match=r"its last checkpoint has 5\.0000"):
        verify["row"](data, run)


@pytest.mark.slow
def test_the_loss_is_measured_with_the_masks_of_the_rules(data, verify, tmp_path, capsys):
    options = {"arch": "bert_tiny", "arch.layers": 1, "batch_size": 8, "num_workers": 0}
    masks = {"task": "mlm", "task.masking": "whole_word", "task.mask_rate": 0.5}
    train(data, **options, **masks, max_update=1, save_dir=tmp_path / "run")
    verify["main"]([str(data), str(tmp_path / "run")])
    *_, head, rule, row = capsys.readouterr().out.splitlines()
    assert (head.split(" | ")[1], rule, row.split(" | ")[3]) == (
        "loss",
        "|---|---|---|---|---|---|---|",
        "1",
    )
    assert 3.0 < float(row.split(" | ")[1]) < 9.0
