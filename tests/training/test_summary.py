from dataclasses import replace
from io import StringIO

import pytest
import torch

from tests.helpers.operation_recorder import OperationRecorder
from toolkit.distributed import World
from toolkit.reporting.console import Console
from toolkit.training import result
from toolkit.training.cuda_graphs import record_updates
from toolkit.training.result import RunResult, print_end, print_metrics, start_rows
from toolkit.training.run import TrainingRun


def printed(show, *what):
    terminal = Console(file=StringIO(), width=100)
    show(*what, terminal)
    return terminal.file.getvalue()


def test_start_rows_describe_the_run(config, data):
    run = TrainingRun(config(update_freq=2, max_tokens=64), World())
    rows = start_rows(run.config, run.trainer, run.train, run.valid, run.total_updates)
    assert rows["architecture"].startswith("composite_bert_tiny, 4,")
    assert rows["batch"] == "at most 64 tokens and 8 examples x 2"
    assert rows["examples"] == "38 in train" and rows["data"] == str(data)
    assert rows["optimizer"] == "adamw, lr 0.0003, linear" and rows["machine"].endswith(", fp32")
    assert rows["updates"].startswith("0 of ") and "caution" not in rows


EXECUTIONS = {
    "composite_bert_tiny": "attention in one kernel, without padding, one CUDA graph, not compiled",
    "deberta_tiny": "attention in torch's operations, with padding, no CUDA graphs, not compiled",
}


@pytest.mark.parametrize("arch", EXECUTIONS)
def test_start_rows_name_what_computes_the_updates_on_a_gpu(config, monkeypatch, arch):
    run = TrainingRun(config(arch=arch, max_tokens=64), World())
    if arch == "composite_bert_tiny":
        record_updates(run.trainer, OperationRecorder(), print, filled=True)
    monkeypatch.setattr(result, "kernel_runs", lambda *_: True)
    monkeypatch.setattr(result, "device_name", str)
    run.trainer.world = replace(run.trainer.world, device=torch.device("cuda"))
    rows = start_rows(run.config, run.trainer, run.train, run.valid, run.total_updates)
    assert rows["execution"] == EXECUTIONS[arch]


def test_start_rows_name_the_warmup_and_one_that_is_longer_than_the_run(config):
    run = TrainingRun(config(lr_scheduler="fixed", warmup_updates=9, max_update=3), World())
    rows = start_rows(run.config, run.trainer, run.train, run.valid, run.total_updates)
    assert rows["optimizer"] == "adamw, lr 0.0003, fixed after 9 updates of warm-up"
    assert "longer than the run of 3 updates" in rows["caution"]


def test_print_end_shows_every_split_and_the_best():
    result = RunResult(
        updates=3,
        epochs=1,
        seconds=1.0,
        train={},
        valid={"valid": {"loss": 2.5}, "test": {"loss": 2.75}},
        best={"metric": "loss", "value": 2.5, "update": 2},
        parameters=3,
    )
    text = printed(print_end, result)
    assert "valid   2.5000" in text and "test    2.7500" in text
    assert "best loss 2.5000 at update 2" in text


def test_print_metrics_leaves_missing_metrics_empty():
    rows = {"a": {"loss": 1.0}, "b": {"accuracy": 0.5}}
    lines = printed(print_metrics, {"split": rows}).splitlines()
    assert [line.split() for line in lines] == [
        ["split", "loss", "accuracy"], ["a", "1.0000", "-"], ["b", "-", "0.50000"]
    ]  # fmt: skip
