"""Mixed values: order of attention and convolution heads, their values and padding."""

import pytest
import torch
from torch import nn

from toolkit.nn.attention import (
    AttentionInputs,
    Content,
    MixedValues,
    Offsets,
    SequenceContext,
    SoftmaxMap,
)

B, H, S, K = 2, 3, 5, 4


class RecordingConvolution(nn.Module):
    """Returns the values and records its inputs."""

    def forward(self, p):
        self.inputs = p
        return p.v


def inputs(*, separate=False, padding=None):
    torch.manual_seed(0)
    q, k, v, extra = torch.randn(4, B, H, S, K)
    sequence = SequenceContext(Offsets(None, S, q.device), padding)
    return AttentionInputs(q, k, v, torch.randn(B, S, H * K), sequence, extra if separate else None)


@pytest.mark.parametrize("separate", [False, True])
def test_mixed_values_put_attention_heads_first_and_use_separate_values_if_any(separate):
    map_, p = SoftmaxMap(Content(K)), inputs(separate=separate)
    heads = MixedValues(RecordingConvolution())(map_, p)
    torch.testing.assert_close(heads[:, :H], map_.average(p))
    torch.testing.assert_close(heads[:, H:], p.convolution_values if separate else p.v)


@pytest.mark.parametrize("sees_padding", [False, True])
def test_convolution_sees_padding_only_with_sees_padding(sees_padding):
    padding = torch.arange(S).expand(B, S) >= 3
    p, values = (
        inputs(padding=padding),
        MixedValues(RecordingConvolution(), sees_padding=sees_padding),
    )
    values(SoftmaxMap(Content(K)), p)
    seen = values.convolution.inputs
    assert bool(seen.x[:, 3:].any()) is bool(seen.v[:, :, 3:].any()) is sees_padding
    assert (seen.sequence.padding is None) is sees_padding and seen.x[:, :3].equal(p.x[:, :3])
