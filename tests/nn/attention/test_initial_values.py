"""Numbers that parts of attention start with, and those that references outside the papers give."""

import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.attention import (
    AbsolutePositionBias,
    PairConvolution,
    QueryConvolution,
    ReversedKernel,
    TemperedProjections,
)
from toolkit.nn.attention.offset_terms import bucket_indices


@pytest.mark.parametrize("left_only", [False, True])
def test_bucket_indices_equal_those_of_hugging_faces_t5(left_only):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    offsets = torch.arange(-300, 301)
    expected = t5.T5Attention._relative_position_bucket(offsets, not left_only, 32, 128)
    assert torch.equal(bucket_indices(offsets, 32, 128, left_only=left_only), expected)


def test_pair_convolution_equals_torchs_per_head():
    torch.manual_seed(0)
    layer, weights = PairConvolution(2).double(), torch.randn(3, 2, 7, 7).double().softmax(-1)
    torch.nn.init.normal_(layer.bias)
    expected = F.conv2d(weights, layer.filters, layer.bias, padding=1, groups=2).relu()
    torch.testing.assert_close(layer(weights), expected)


def test_absolute_position_bias_starts_with_glorots_variance_within_two_deviations():
    table = AbsolutePositionBias(4, 60).table.detach()
    std = (2 / 120) ** 0.5
    assert abs(float(table.std()) - std) < 0.03 * std
    assert float(table.abs().max()) < 2 * std / 0.8796


def test_reversed_kernel_starts_with_deviation_0_302_at_60_positions():
    numbers = ReversedKernel(400, 60, spectral=False).numbers.detach()
    assert abs(float(numbers.std()) - 0.302) < 0.006


def test_smoothing_filters_start_uniform_within_glorots_bound():
    along, pairs = QueryConvolution(4, 60), PairConvolution(400)
    assert 0.128 < along.filters.abs().max().item() < 0.1291
    assert 0.57 < pairs.filters.abs().max().item() < 0.5774
    assert not along.bias.any() and not pairs.bias.any()


def test_tempered_projections_initialize_each_head_as_a_separate_matrix():
    weight = TemperedProjections(364, 4, temperature=False).qkv.weight
    std = (2 / (364 + 91)) ** 0.5
    for head in weight.split(91):
        assert abs(head.std().item() - std) < 0.02 * std
