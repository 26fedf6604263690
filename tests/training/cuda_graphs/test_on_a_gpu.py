"""Training with CUDA graphs on a real device."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from toolkit.distributed import World
from toolkit.training import cuda_graphs
from toolkit.training.cuda_graphs import GraphedAccumulator
from toolkit.training.run import TrainingRun

pytestmark = pytest.mark.gpu
RATES = {"lr": 2**-7, "lr_scheduler": "fixed", "warmup_updates": 16}
RUN = {
    "device": "cuda",
    "cuda_graph": "auto",
    "log_interval": 1,
    "max_update": 20,
    "max_epoch": None,
    **RATES,
}
CASES = {
    "masked tokens": {"task": "mlm"},
    "two networks": {"arch": "convbert_tiny", "task": "rtd", "mask_rate": 0.3},
    "gradient accumulation": {"update_freq": 3},
    "fp16": {"precision": "fp16", "skip_spikes": True},
    "compiled layers": {"compile": True},
}


@pytest.fixture
def train(config, tmp_path):
    def run(folder, **options):
        world = World(device=torch.device("cuda", 0))
        training = TrainingRun(config(**RUN, **options, save_dir=str(tmp_path / folder)), world)
        try:
            training.fit()
        finally:
            training.close()
        return training.trainer

    return run


def run_without_checks(request):
    """The same test in a separate process: annotations that are checked cannot be compiled."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=--import-mode=importlib"]
    ran = subprocess.run(
        [*command, request.node.nodeid], cwd=request.config.rootpath, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_training_with_cuda_graphs_equals_training_without(
    request, train, options, capsys, monkeypatch
):
    if options.get("compile") and request.config.getoption("jaxtyping_packages"):
        run_without_checks(request)
        return
    graphed = train("graphed", **options)
    assert isinstance(graphed.accumulator, GraphedAccumulator)
    assert len(graphed.accumulator.graphs.passes) >= 2 and graphed.accumulator.graphs.updates
    assert "none from now on" not in capsys.readouterr().err
    monkeypatch.setattr(cuda_graphs, "MIN_SEEN", 10**9)  # nothing repeats that often
    plain = train("plain", **options)
    assert not plain.accumulator.graphs.passes
    for a, b in zip(graphed.parameters, plain.parameters, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(graphed.last_step.losses, plain.last_step.losses, rtol=1e-3, atol=0)


def test_a_replay_waits_for_nothing(train):
    trainer = train("run")
    step, replayed = trainer.last_step, len(trainer.accumulator.graphs.passes)
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.step(step.micro_batches, 10**9)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(trainer.accumulator.graphs.passes) == replayed
