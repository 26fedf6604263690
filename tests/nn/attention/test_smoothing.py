"""Convolutions over attention weights (Dufter et al. 2020, section 2.5)."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.attention import AttentionInputs, Content, Offsets, SequenceContext
from toolkit.nn.attention.smoothing import PairConvolution, QueryConvolution, SmoothedMap

B, H, T = 3, 2, 7
KINDS = {"1d": lambda: QueryConvolution(H, T), "2d": lambda: PairConvolution(H)}


def smoothing(kind):
    torch.manual_seed(0)
    made = KINDS[kind]().double()
    torch.nn.init.normal_(made.bias)
    return made


def weights():
    return torch.randn(B, H, T, T, dtype=torch.float64).softmax(-1).requires_grad_()


def test_the_1d_form_is_torchs_convolution_with_keys_as_channels():
    made, given = smoothing("1d"), weights()
    for head in range(H):
        filters = made.filters[head].permute(2, 1, 0)  # (3, keys in, keys out) -> torch's order
        want = F.conv1d(given[:, head].mT, filters, made.bias[head], padding=1).relu().mT
        torch.testing.assert_close(made(given)[:, head], want)


def test_the_2d_form_is_torchs_convolution_head_by_head():
    made, given = smoothing("2d"), weights()
    want = F.conv2d(given, made.filters, made.bias, padding=1, groups=H).relu()
    torch.testing.assert_close(made(given), want)


@pytest.mark.parametrize("kind", KINDS)
def test_smoothing_has_the_derivative_of_what_it_computes(kind):
    made, given = smoothing(kind), weights()
    parameters = (given, made.filters, made.bias)
    torch.autograd.gradcheck(
        lambda w, filters, bias: torch.func.functional_call(
            made, {"filters": filters, "bias": bias}, (w,)
        ),
        parameters,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_smoothed_map_applies_what_it_shows(kind):
    q, k, v = torch.randn(3, B, H, T, 4, dtype=torch.float64)
    p = AttentionInputs(q, k, v, q[:, 0], SequenceContext(Offsets(None, T, q.device)))
    map_ = SmoothedMap(Content(4), [], smoothing(kind))
    torch.testing.assert_close(map_.average(p), map_(p) @ v)
    plain = (q @ k.mT / 2).softmax(-1)
    torch.testing.assert_close(map_(p), map_.smoothing(plain))


def test_filters_begin_uniform_within_the_bound_of_glorot():
    along, pairs = QueryConvolution(4, 60), PairConvolution(400)
    assert 0.128 < along.filters.abs().max().item() < 0.1291
    assert 0.57 < pairs.filters.abs().max().item() < 0.5774
    assert not along.bias.any()
    assert not pairs.bias.any()
