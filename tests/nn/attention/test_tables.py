"""Direct position interactions (Dufter et al. 2020)."""

from __future__ import annotations

import torch

from toolkit.nn.attention import AttentionInputs, Offsets, SequenceContext
from toolkit.nn.attention.position_bias import AbsolutePositionBias, ReversedKernel


def projected(length: int) -> AttentionInputs:
    q = torch.zeros(1, 2, length, 3)
    return AttentionInputs(q, q, q, q[:, 0], SequenceContext(Offsets(None, length, q.device)))


def test_a_place_table_begins_with_the_variance_of_glorot_and_within_two_deviations():
    table = AbsolutePositionBias(4, 60).table.detach()
    deviation = (2 / 120) ** 0.5
    assert abs(float(table.std()) - deviation) < 0.03 * deviation
    assert float(table.abs().max()) < 2 * deviation / 0.8796


def test_a_turned_kernel_begins_with_deviation_0_302_at_60_places():
    numbers = ReversedKernel(400, 60, spectral=False).numbers.detach()
    assert abs(float(numbers.std()) - 0.302) < 0.006


def test_a_turned_kernel_reads_every_number_but_the_first():
    kernel = ReversedKernel(2, 4, spectral=False)
    kernel(projected(4)).sum().backward()
    torch.testing.assert_close(kernel.numbers.grad, torch.tensor([[0.0] + 7 * [1.0]] * 2))


def test_a_spectral_kernel_cannot_tell_left_from_right():
    taps = ReversedKernel(2, 6, spectral=True)(projected(6))
    torch.testing.assert_close(taps, taps.flip(-1))
    assert len(taps[0, 0, 0].detach().round(decimals=5).unique()) == 6
