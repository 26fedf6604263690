"""FLOPs of models are the same with Triton kernels and with plain operations."""

from __future__ import annotations

from typing import NamedTuple
from unittest.mock import patch

import pytest
import torch

from tests.gpu.batches import BATCHES, Shape
from tests.gpu.steps import DEVICE, Case, build_trainer, fake_device
from toolkit.nn.ops import kernels as register
from toolkit.tasks.examples import to_device
from toolkit.training.flop_counter import FlopCounter

pytestmark = pytest.mark.usefixtures("triton_installed")
ONE_LAYER = {"layers": 1}


class Flops(NamedTuple):
    forward: int
    backward: int


def count_both(case: Case) -> tuple[Flops, Flops]:
    """With kernels, then without."""
    with_kernels = count_flops(case)
    with patch.object(register, "find_spec", lambda name: None):
        plain = count_flops(case)
    return with_kernels, plain


def count_flops(case: Case) -> Flops:
    with fake_device(), FlopCounter() as counter:
        trainer = build_trainer(case)
        batch = to_device(BATCHES[case.task](case.shape), DEVICE)
        totals = trainer.criterion(trainer.learner(batch))
        forward = counter.total
        torch.stack(list(totals.values())).sum().backward()
    return Flops(forward, counter.total - forward)


def test_flops_of_mixed_maps_are_those_of_a_convolution(fake_cuda):
    kernels, plain = fake_cuda(count_both, Case(arch="taco_tiny", task="mlm", options=ONE_LAYER))
    assert kernels == plain


def test_flops_of_the_dynamic_convolution_leave_out_the_zeros_of_bands(fake_cuda):
    """A block of 32 positions has 40 columns, of which 9 a row are taps.

    Torch's formula for the backward pass of its fused attention counts the scores again.
    """
    shape = Shape(4, 32)
    case = Case(arch="convbert_tiny", task="mlm", options=ONE_LAYER, shape=shape)
    kernels, plain = fake_cuda(count_both, case)
    tokens, columns, channels = 4 * 32, 40 - 9, 64
    zeros = 2 * tokens * columns * channels
    assert plain.forward - kernels.forward == zeros
    scores_again = 2 * tokens * 32 * channels
    assert plain.backward - kernels.backward == 2 * zeros + scores_again
