import math

import torch

from toolkit.nn.attention import Content, CrossAttention, CrossAttentionSource, SoftmaxMap
from toolkit.nn.decoding_cache import EncoderKVCache

WIDTH, HEADS = 8, 2


def reader():
    torch.manual_seed(0)
    return CrossAttention(WIDTH, HEADS, SoftmaxMap(Content(WIDTH // HEADS))).double()


def text(rows, places):
    return torch.randn(rows, places, WIDTH, dtype=torch.float64)


def test_it_equals_loops_over_the_places_of_the_source():
    cross, x, m = reader(), text(1, 3), text(1, 4)
    both = [cross.key_value.weight @ row + cross.key_value.bias for row in m[0]]
    for i, row in enumerate(x[0]):
        q, context = cross.query.weight @ row + cross.query.bias, []
        for head in range(HEADS):
            mine = slice(head * 4, head * 4 + 4)
            scores = torch.stack([q[mine] @ y[:WIDTH][mine] / math.sqrt(4) for y in both])
            weights = scores.softmax(0)
            context.append(sum(w * y[WIDTH:][mine] for w, y in zip(weights, both, strict=True)))
        want = cross.output.weight @ torch.cat(context) + cross.output.bias
        torch.testing.assert_close(
            cross(x, CrossAttentionSource(m))[0, i], want, atol=1e-12, rtol=0
        )


def test_rows_that_share_a_source_read_what_each_would_alone():
    cross, x, m = reader(), text(6, 3), text(2, 4)
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    each = CrossAttentionSource(m.repeat_interleave(3, 0), padding.repeat_interleave(3, 0))
    torch.testing.assert_close(
        cross(x, CrossAttentionSource(m, padding)), cross(x, each), atol=1e-12, rtol=0
    )


def test_a_source_that_is_kept_need_not_be_shown_again():
    cross, x, source, kept = (
        reader(),
        text(4, 1),
        CrossAttentionSource(text(2, 5)),
        EncoderKVCache(),
    )
    first = cross(x, source, kept)
    assert torch.equal(cross(x, None, kept), first)


def test_weights_are_shares_of_what_is_no_padding():
    cross, padding = reader(), torch.tensor([[False, False, True]])
    weights = cross.weights(text(1, 2), CrossAttentionSource(text(1, 3), padding))
    assert weights.shape == (1, HEADS, 2, 3) and not weights[..., 2].any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, HEADS, 2, dtype=torch.float64))
