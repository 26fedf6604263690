"""The position-wise network with groups: what a group may see, and how it starts."""

import pytest
import torch

from toolkit.nn.feed_forward import FeedForward, GroupedLinear


def test_a_group_sees_its_own_channels_alone():
    torch.manual_seed(0)
    network, x = FeedForward(8, 16, groups=2), torch.randn(1, 3, 8)
    moved = x.clone()
    moved[..., :4] += 1.0
    changed = (network(x) != network(moved)).any(1)[0]
    assert changed.tolist() == [True] * 4 + [False] * 4


def test_groups_divide_the_matrices_and_not_the_biases():
    sizes = [sum(p.numel() for p in FeedForward(8, 16, groups).parameters()) for groups in (1, 4)]
    assert sizes == [2 * 8 * 16 + 24, 2 * 8 * 16 // 4 + 24]


def test_grouped_matrices_start_as_the_others_do():
    torch.manual_seed(0)
    part = GroupedLinear(256, 512, 2)
    assert part.weight.std().item() == pytest.approx(0.02, rel=0.02) and not part.bias.any()
