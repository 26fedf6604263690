"""FLOPs of models are the same with Triton kernels and with plain operations."""

from __future__ import annotations

import pytest

from tests.gpu.batches import Shape
from tests.gpu.flops import count_both
from tests.gpu.steps import Case

pytestmark = pytest.mark.usefixtures("triton_installed")
ONE_LAYER = {"layers": 1}


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
