import subprocess
import sys
from pathlib import Path

import pytest
import torch

from toolkit import build_model
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch
from toolkit.training.setup import parallelize

ROOT = Path(__file__).resolve().parents[2]


def made(arch="composite_bert_tiny", **options):
    torch.manual_seed(1)
    learner = build_model(arch, vocabulary_size=50, task="mlm", width=32, heads=2)
    return parallelize(learner, World(), TrainingConfig(**options), "fp32")


def losses(learner, updates=5):
    """The losses of updates with dropout on and batches of changing length."""
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    found = []
    for update in range(updates):
        tokens = torch.arange(5, 5 + 3 * (8 + update)).view(3, -1)
        padding = torch.zeros_like(tokens, dtype=torch.bool)
        padding[1, 6:] = True
        targets = tokens.flatten()[:6]
        inputs = Inputs(tokens, padding=padding)
        torch.manual_seed(update)
        batch = TargetBatch(inputs, torch.arange(6), targets, {"mlm": 6.0}, 3, tokens.numel())
        loss = torch.nn.functional.cross_entropy(learner(batch)["mlm"].logits, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def test_checkpoint_activations_recomputes_layers():
    assert made(checkpoint_activations=True).encoder.layers.checkpoint_activations
    assert not made().encoder.layers.checkpoint_activations


def test_checkpoint_activations_changes_no_loss():
    assert losses(made(checkpoint_activations=True)) == losses(made())


COMPILED = """
import sys, torch
from torch.nn.functional import cross_entropy
from toolkit import build_model
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch
from toolkit.training.setup import parallelize

arch, device, recomputed = sys.argv[1], torch.device(sys.argv[2]), sys.argv[3] == "recomputed"
rate = 0.1 if device.type == "cpu" else 0.0  # compiled layers draw other random numbers on a GPU

def losses(compiled):
    torch.manual_seed(1)
    rates = {"dropout": rate, "attention_dropout": rate}
    learner = build_model(arch, vocabulary_size=50, task="mlm", layers=1, **rates).to(device)
    config = TrainingConfig(compile=compiled, checkpoint_activations=compiled and recomputed)
    parallelize(learner, World(device=device), config, "fp32")
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    for update in range(3):
        tokens = torch.arange(5, 5 + 3 * (8 + update), device=device).view(3, -1)
        padding = torch.zeros_like(tokens, dtype=torch.bool)
        padding[1, 6:] = True
        targets, places = tokens.flatten()[:6], torch.arange(6, device=device)
        inputs = Inputs(tokens, padding=padding)
        batch = TargetBatch(inputs, places, targets, {"mlm": 6.0}, 3, tokens.numel())
        torch.manual_seed(update)
        loss = cross_entropy(learner(batch)["mlm"].logits, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()

print(*losses(False), *losses(True))
"""
"""Run in a separate process: annotations that are checked, as in tests, cannot be compiled."""


def both(arch, device, recomputed=""):
    """The losses of updates with batches of changing length: plain, then compiled."""
    command = [sys.executable, "-c", COMPILED, arch, device, recomputed]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = [float(word) for word in ran.stdout.split()]
    return found[:3], found[3:]


@pytest.mark.slow
def test_compiled_layers_that_are_recomputed_have_the_same_losses_with_dropout():
    plain, compiled = both("bert_tiny", "cpu", "recomputed")
    assert compiled == pytest.approx(plain, abs=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "arch", ["composite_bert_tiny", "bert_tiny", "convbert_tiny", "deberta_tiny", "taco_tiny"]
)
def test_compiled_layers_have_the_same_losses_on_a_gpu(arch):
    plain, compiled = both(arch, "cuda")
    assert compiled == pytest.approx(plain, abs=1e-3)
