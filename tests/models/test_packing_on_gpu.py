"""Gradients of updates with attention in one kernel, and without: the same to rounding.

With TRITON_INTERPRET=1 and Triton installed they also run, slowly, on a CPU in fp32.
"""

from __future__ import annotations

import dataclasses
import os
from unittest.mock import patch

import pytest
import torch

from toolkit.common.registry import ARCHITECTURES, CRITERIA, TASKS
from toolkit.config.sections import ComponentConfig
from toolkit.models import encoder
from toolkit.models.interface import Inputs, Sizes
from toolkit.models.packing import pack_padding
from toolkit.optim.update import Precision
from toolkit.tasks.build import build_learner
from toolkit.tasks.examples import TargetBatch, add_packing, to_device

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
SHAPE = {"layers": 2, "dropout": 0.0, "attention_dropout": 0.0}
BOUNDS = {"fp32": 1e-4} if INTERPRETED else {"fp32": 1e-4, "bf16": 5e-2}
"""Greatest error of a gradient, as a fraction of its norm or of a hundredth of the greatest."""
VARIANTS = {
    "bert": ("bert_tiny", {}),
    "composite": ("composite_bert_tiny", {}),
    "key": ("composite_bert_tiny", {"key_dynamic": True}),
    "convbert": ("convbert_tiny", {}),
}
pytestmark = pytest.mark.gpu


@pytest.fixture(params=VARIANTS)
def learner(request):
    torch.manual_seed(0)
    arch, options = VARIANTS[request.param]
    config = dataclasses.replace(ARCHITECTURES[arch].config, **SHAPE, **options)
    parts = ComponentConfig(arch, config), ComponentConfig("mlm", TASKS["mlm"].config)
    built = build_learner(*parts, Sizes(tokens=90, targets=90)).to(DEVICE).train()
    for parameter in built.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)  # taps begin at zero
    return built


def make_batch(*, padded: bool) -> TargetBatch:
    torch.manual_seed(1)
    tokens = torch.randint(5, 90, (6, 70))
    lengths = torch.tensor([70, 3, 41, 64, 1, 66])
    padding = torch.arange(70) >= lengths[:, None]
    inputs = Inputs(tokens.masked_fill(padding, 0), padding=padding) if padded else Inputs(tokens)
    selected = (~padding).flatten().nonzero()[::5, 0]
    targets, count = tokens.flatten()[selected], len(selected)
    return TargetBatch(inputs, selected, targets, {"mlm": float(count)}, 6, int(lengths.sum()))


def loss_and_gradients(learner, batch, precision, *, kernel):
    learner.encoder.uses_packing = kernel
    criterion = CRITERIA["cross_entropy"].factory(CRITERIA["cross_entropy"].config)
    if kernel:
        batch = add_packing(batch, pack_padding)
    runs = patch.object(encoder, "kernel_runs", lambda *of: True)
    with runs, Precision(precision, DEVICE).autocast():
        (loss,) = criterion(learner(to_device(batch, DEVICE))).values()
    gradients = torch.autograd.grad(loss / len(batch.selected), list(learner.parameters()))
    return loss.detach() / len(batch.selected), gradients


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("padded", [False, True])
def test_updates_with_the_attention_kernel_have_the_same_gradients(learner, precision, padded):
    pytest.importorskip("triton")
    batch, bound = make_batch(padded=padded), BOUNDS[precision]
    loss, gradients = loss_and_gradients(learner, batch, precision, kernel=True)
    plain_loss, plain = loss_and_gradients(learner, batch, precision, kernel=False)
    torch.testing.assert_close(loss, plain_loss, rtol=bound / 10, atol=0)
    scale = max(g.norm() for g in plain) / 100
    for found, expected in zip(gradients, plain, strict=True):
        assert (found - expected).norm() <= bound * max(expected.norm(), scale)
