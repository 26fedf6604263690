"""Fault 30: a refactoring changes the losses by accident.

Fifty updates of a tiny model are compared with those in tests/fixtures/losses.jsonl: letter by
letter on the kind of machine that wrote them, elsewhere to 1e-5. After a change that is meant to
change them: TOOLKIT_STORE_LOSSES=1 pytest tests/faults/test_30_loss_trace.py
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest
import torch

from toolkit.reporting.runs import read_log
from toolkit.training.run import run

STORED = Path(__file__).resolve().parents[1] / "fixtures" / "losses.jsonl"
FIGURES = ("update", "epoch", "loss", "gradient_norm", "lr")
UPDATES = 50


def machine():
    """What determines the order and width of sums: processor, vector width, torch version."""
    facts = Path("/proc/cpuinfo")
    pairs = [line.split(":") for line in facts.read_text().splitlines()] if facts.exists() else []
    cpu = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}
    return {
        "machine": platform.machine(),
        "processor": [cpu.get(key) for key in ("model name", "cpu family", "model", "stepping")],
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
    }


def train(config, folder):
    torch.set_num_threads(1)
    run(config(max_update=UPDATES, max_epoch=None, log_interval=1, lr=0.01, save_dir=str(folder)))


@pytest.fixture
def trace(config, in_process, tmp_path):
    """The metrics of every update, one JSON object each, in a process with one thread."""
    assert in_process(train, config, tmp_path / "run") == 0
    records = read_log(tmp_path / "run" / "metrics.jsonl")
    return [
        json.dumps({name: r[name] for name in FIGURES}) for r in records if r["event"] == "train"
    ]


@pytest.mark.slow
def test_losses_of_fifty_updates_equal_the_stored_ones(trace):
    if os.environ.get("TOOLKIT_STORE_LOSSES"):
        STORED.write_text("\n".join([json.dumps(machine()), *trace]) + "\n")
    first, *stored = STORED.read_text().splitlines()
    assert len(trace) == len(stored) == UPDATES
    if json.loads(first) == machine():
        assert trace == stored
    for now, then in zip(map(json.loads, trace), map(json.loads, stored), strict=True):
        assert now == pytest.approx(then, rel=1e-5, abs=1e-5)
