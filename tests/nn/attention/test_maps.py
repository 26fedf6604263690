import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention import (
    AttentionInputs,
    Content,
    FixedKernel,
    Offsets,
    PairConvolution,
    Relative,
    SequenceContext,
    SmoothedMap,
    SoftmaxMap,
)


def projected(queries=6, keys=6, causal=True):
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
@pytest.mark.parametrize("learning", [False, True])
def test_the_average_looks_left_alone_as_the_map_that_is_shown(terms, queries, learning):
    map_, p = SoftmaxMap(Content(4), [relative()] * terms), projected(queries)
    weights = map_(p)
    assert not weights.triu(1 + 6 - queries).any()
    with torch.set_grad_enabled(learning):
        torch.testing.assert_close(map_.average(p), weights @ p.v)


def test_a_kernel_to_the_left_reads_what_one_to_both_sides_would_on_the_left():
    left, both = relative(left_only=True), relative()
    both.kernels[0].taps.data[:, :3] = left.kernels[0].taps.data
    p = projected()
    torch.testing.assert_close(left(p).tril(), both(p).tril())
    assert left.kernels[0].taps.shape == (3, 3)


def test_a_map_that_sees_places_on_the_right_is_refused_in_decoders():
    map_ = SmoothedMap(Content(4), [], PairConvolution(3))
    with pytest.raises(ToolkitError, match=r"attends to the left only .* SmoothedMap does not"):
        map_.init_cache()
