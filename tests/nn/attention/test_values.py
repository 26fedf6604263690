"""Heads of self-attention beside heads of a convolution: their order, and what each may see."""

import pytest
import torch

from toolkit.nn.attention import (
    AttentionInputs,
    Content,
    MixedValues,
    Offsets,
    SequenceContext,
    SoftmaxMap,
)
from toolkit.nn.attention.kernel_convolution import Convolution

B, H, S, K = 2, 3, 5, 4


class Seen(Convolution):
    """Gives the values back, and keeps what it was given."""

    def forward(self, p):
        self.given = p
        return p.v


def projected(*, nearby=False, padding=None):
    torch.manual_seed(0)
    q, k, v, own = torch.randn(4, B, H, S, K)
    places = SequenceContext(Offsets(None, S, q.device), padding)
    return AttentionInputs(q, k, v, torch.randn(B, S, H * K), places, own if nearby else None)


@pytest.mark.parametrize("nearby", [False, True])
def test_heads_of_self_attention_come_first_and_the_others_have_their_own_values_if_any(nearby):
    map_, p = SoftmaxMap(Content(K)), projected(nearby=nearby)
    both = MixedValues(Seen())(map_, p)
    torch.testing.assert_close(both[:, :H], map_.average(p))
    torch.testing.assert_close(both[:, H:], p.convolution_values if nearby else p.v)


@pytest.mark.parametrize("sees", [False, True])
def test_the_convolution_sees_padding_only_where_it_is_told_to(sees):
    padding = torch.arange(S).expand(B, S) >= 3
    p, values = projected(padding=padding), MixedValues(Seen(), sees_padding=sees)
    values(SoftmaxMap(Content(K)), p)
    seen = values.convolution.given
    assert bool(seen.x[:, 3:].any()) is bool(seen.v[:, :, 3:].any()) is sees
    assert (seen.sequence.padding is None) is sees and seen.x[:, :3].equal(p.x[:, :3])
