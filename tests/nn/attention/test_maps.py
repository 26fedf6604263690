import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention import (
    AttentionInputs,
    Content,
    FixedKernel,
    KernelMap,
    NormalizedKernel,
    Offsets,
    PairConvolution,
    Relative,
    SequenceContext,
    SmoothedMap,
    SoftmaxMap,
)


def inputs(queries=6, keys=6, causal=True):
    q, k, v = (torch.randn(2, 3, n, 4) for n in (queries, keys, keys))
    offsets = Offsets(None, keys, q.device, query_start=keys - queries)
    return AttentionInputs(
        q, k, v, torch.randn(2, queries, 12), SequenceContext(offsets, causal=causal)
    )


def relative(left_only=False):
    kernel = FixedKernel(3, 2, left_only=left_only)
    torch.nn.init.normal_(kernel.taps)
    return Relative([kernel])


@pytest.mark.parametrize("terms", [0, 1])
@pytest.mark.parametrize("queries", [1, 3, 6])
@pytest.mark.parametrize("training", [False, True])
def test_softmax_map_average_equals_its_causal_weights(terms, queries, training):
    map_, p = SoftmaxMap(Content(4), [relative()] * terms), inputs(queries)
    weights = map_(p)
    assert not weights.triu(1 + 6 - queries).any()
    with torch.set_grad_enabled(training):
        torch.testing.assert_close(map_.average(p), weights @ p.v)


def test_left_only_kernel_equals_the_left_half_of_a_symmetric_one():
    left, both = relative(left_only=True), relative()
    both.kernels[0].taps.data[:, :3] = left.kernels[0].taps.data
    p = inputs()
    torch.testing.assert_close(left(p).tril(), both(p).tril())
    assert left.kernels[0].taps.shape == (3, 3)


def test_smoothed_map_is_rejected_in_decoders():
    map_ = SmoothedMap(Content(4), [], PairConvolution(3))
    with pytest.raises(ToolkitError, match=r"attends to the left only .* SmoothedMap does not"):
        map_.init_cache()


HEADS, SIZE = 2, 5


def kernel_inputs(length=8):
    v = torch.randn(3, HEADS, length, 4)
    x = v.transpose(1, 2).flatten(2)
    return AttentionInputs(v, v, v, x, SequenceContext(Offsets(None, length, v.device)))


def build_map(**options):
    return KernelMap(NormalizedKernel(HEADS, SIZE), SIZE, **options)


def test_kernel_map_weights_of_later_queries_give_their_average():
    p, map_ = kernel_inputs(9), build_map(left_only=True)
    later = p._replace(q=p.q[:, :, 4:])
    torch.testing.assert_close(map_(later) @ p.v, map_.average(later))


def test_kernel_map_drops_taps_of_a_fixed_kernel_at_all_positions():
    torch.manual_seed(0)
    weights = build_map(dropout=0.5)(kernel_inputs(200))
    dropped = (weights[0, 0, 10:190].diagonal(offset=10) == 0).float().mean()
    assert dropped in (0.0, 1.0)  # one tap of the head, at all positions
