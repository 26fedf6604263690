import pytest
import torch

from toolkit.nn.attention import (
    AttentionInputs,
    KernelMap,
    NormalizedKernel,
    Offsets,
    SequenceContext,
)

HEADS, SIZE = 2, 5


def projected(length=8):
    v = torch.randn(3, HEADS, length, 4)
    x = v.transpose(1, 2).flatten(2)
    return AttentionInputs(v, v, v, x, SequenceContext(Offsets(None, length, v.device)))


def lightweight(**options):
    return KernelMap(NormalizedKernel(HEADS, SIZE), SIZE, **options)


def test_a_kernel_at_every_place_is_a_depthwise_convolution():
    p, map_ = projected(), lightweight()
    channels = p.v.transpose(2, 3).flatten(1, 2)  # (B, H, S, K) -> (B, HK, S)
    weight = map_.kernel.taps.softmax(-1).repeat_interleave(4, 0).unsqueeze(1)
    want = torch.conv1d(channels, weight, padding=SIZE // 2, groups=4 * HEADS)
    got = map_.average(p).transpose(2, 3).flatten(1, 2)
    torch.testing.assert_close(got, want)


def test_weights_that_fall_beyond_the_ends_are_lost():
    weights = lightweight()(projected())
    assert torch.allclose(weights[:, :, 2:6].sum(-1), torch.ones(()))
    assert (weights[:, :, [0, 1, 6, 7]].sum(-1) < 1).all()


def test_a_map_to_the_left_shows_nothing_on_the_right():
    weights = lightweight(left_only=True)(projected())
    assert not weights.triu(1).any() and (weights.diagonal(dim1=-2, dim2=-1) > 0).all()


@pytest.mark.parametrize("steps", [[1] * 8, [3, 1, 4]])
def test_what_is_kept_stands_in_for_the_places_before(steps):
    p, map_, begin = projected(), lightweight(left_only=True), 0
    kept, got = map_.init_cache(), []
    for step in steps:
        new = p.v[:, :, begin : begin + step]
        k, v = kept.append(new, new)
        got.append(map_.average(p._replace(q=new, k=k, v=v)))
        begin += step
    torch.testing.assert_close(torch.cat(got, 2), map_.average(p))


def test_the_map_shown_is_the_one_applied_to_what_is_kept():
    p, map_ = projected(9), lightweight(left_only=True)
    later = p._replace(q=p.q[:, :, 4:])
    torch.testing.assert_close(map_(later) @ p.v, map_.average(later))


def test_whole_kernels_drop_single_taps():
    torch.manual_seed(0)
    weights = lightweight(dropout=0.5)(projected(200))
    dropped = (weights[0, 0, 10:190].diagonal(offset=10) == 0).float().mean()
    assert dropped in (0.0, 1.0)  # one tap of the head, at all its places
