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
    layer = KINDS[kind]().double()
    torch.nn.init.normal_(layer.bias)
    return layer


def weights():
    return torch.randn(B, H, T, T, dtype=torch.float64).softmax(-1).requires_grad_()


def test_query_convolution_equals_torchs_with_keys_as_channels():
    layer, w = smoothing("1d"), weights()
    for head in range(H):
        filters = layer.filters[head].permute(2, 1, 0)  # (3, keys in, keys out) -> torch's order
        expected = F.conv1d(w[:, head].mT, filters, layer.bias[head], padding=1).relu().mT
        torch.testing.assert_close(layer(w)[:, head], expected)


def test_pair_convolution_equals_torchs_per_head():
    layer, w = smoothing("2d"), weights()
    expected = F.conv2d(w, layer.filters, layer.bias, padding=1, groups=H).relu()
    torch.testing.assert_close(layer(w), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_smoothing_passes_gradcheck(kind):
    layer, w = smoothing(kind), weights()
    parameters = (w, layer.filters, layer.bias)
    torch.autograd.gradcheck(
        lambda x, filters, bias: torch.func.functional_call(
            layer, {"filters": filters, "bias": bias}, (x,)
        ),
        parameters,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_smoothed_map_average_equals_its_weights(kind):
    q, k, v = torch.randn(3, B, H, T, 4, dtype=torch.float64)
    p = AttentionInputs(q, k, v, q[:, 0], SequenceContext(Offsets(None, T, q.device)))
    map_ = SmoothedMap(Content(4), [], smoothing(kind))
    torch.testing.assert_close(map_.average(p), map_(p) @ v)
    plain = (q @ k.mT / 2).softmax(-1)
    torch.testing.assert_close(map_(p), map_.smoothing(plain))


def test_smoothing_filters_start_uniform_within_glorots_bound():
    along, pairs = QueryConvolution(4, 60), PairConvolution(400)
    assert 0.128 < along.filters.abs().max().item() < 0.1291
    assert 0.57 < pairs.filters.abs().max().item() < 0.5774
    assert not along.bias.any()
    assert not pairs.bias.any()
