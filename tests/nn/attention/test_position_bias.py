"""Score biases by bucket (Raffel et al. 2020) and by position (Dufter et al. 2020)."""

import pytest
import torch

from toolkit.nn.attention import (
    AbsolutePositionBias,
    AttentionInputs,
    BucketBias,
    Offsets,
    ReversedKernel,
    SequenceContext,
)
from toolkit.nn.attention.offset_terms import bucket_indices


def inputs(queries, keys):
    q, k = torch.randn(2, 3, queries, 4), torch.randn(2, 3, keys, 4)
    offsets = Offsets(None, keys, q.device, query_start=keys - queries)
    return AttentionInputs(q, k, k, torch.randn(2, queries, 12), SequenceContext(offsets))


@pytest.mark.parametrize("left_only", [False, True])
def test_bucket_bias_of_each_pair_is_the_number_of_its_bucket(left_only):
    term = BucketBias(3, 8, 20, left_only=left_only)
    torch.nn.init.normal_(term.numbers)
    bias = term(inputs(30, 30))[0]
    for i, j in torch.cartesian_prod(torch.arange(30), torch.arange(30)).tolist():
        bucket = bucket_indices(torch.tensor([j - i]), 8, 20, left_only=left_only)
        assert torch.equal(bias[:, i, j], term.numbers[:, bucket[0]])


@pytest.mark.parametrize("queries", [1, 4])
def test_bucket_bias_of_later_queries_equals_that_of_all(queries):
    term = BucketBias(3, 8, 20, left_only=True)
    torch.nn.init.normal_(term.numbers)
    whole = term(inputs(30, 30))
    assert torch.equal(term(inputs(queries, 30)), whole[:, :, 30 - queries :])


@pytest.mark.parametrize("left_only", [False, True])
def test_bucket_indices_equal_those_of_hugging_faces_t5(left_only):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    offsets = torch.arange(-300, 301)
    expected = t5.T5Attention._relative_position_bucket(offsets, not left_only, 32, 128)
    assert torch.equal(bucket_indices(offsets, 32, 128, left_only=left_only), expected)


def test_bucket_indices_are_separate_for_near_offsets_and_shared_for_far_ones():
    buckets = bucket_indices(-torch.arange(200), 32, 128, left_only=True).tolist()
    assert buckets[:16] == list(range(16)) and set(buckets[128:]) == {31}


def test_absolute_position_bias_starts_with_glorots_variance_within_two_deviations():
    table = AbsolutePositionBias(4, 60).table.detach()
    std = (2 / 120) ** 0.5
    assert abs(float(table.std()) - std) < 0.03 * std
    assert float(table.abs().max()) < 2 * std / 0.8796


def test_reversed_kernel_starts_with_deviation_0_302_at_60_positions():
    numbers = ReversedKernel(400, 60, spectral=False).numbers.detach()
    assert abs(float(numbers.std()) - 0.302) < 0.006


def test_reversed_kernel_reads_every_number_but_the_first():
    kernel = ReversedKernel(2, 4, spectral=False)
    kernel(inputs(4, 4)).sum().backward()
    torch.testing.assert_close(kernel.numbers.grad, torch.tensor([[0.0] + 7 * [1.0]] * 2))


def test_spectral_kernel_is_symmetric():
    taps = ReversedKernel(2, 6, spectral=True)(inputs(6, 6))
    torch.testing.assert_close(taps, taps.flip(-1))
    assert len(taps[0, 0, 0].detach().round(decimals=5).unique()) == 6
