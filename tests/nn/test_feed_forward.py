"""Grouped feed-forward networks: dependencies, sizes and initialization."""

import pytest
import torch

from toolkit.nn.feed_forward import FeedForward, GroupedLinear


def test_group_depends_on_its_channels_only():
    torch.manual_seed(0)
    network, x = FeedForward(8, 16, groups=2), torch.randn(1, 3, 8)
    changed_x = x.clone()
    changed_x[..., :4] += 1.0
    differs = (network(x) != network(changed_x)).any(1)[0]
    assert differs.tolist() == [True] * 4 + [False] * 4


def test_groups_divide_the_size_of_matrices_and_not_of_biases():
    sizes = [sum(p.numel() for p in FeedForward(8, 16, groups).parameters()) for groups in (1, 4)]
    assert sizes == [2 * 8 * 16 + 24, 2 * 8 * 16 // 4 + 24]


def test_grouped_matrices_have_the_initialization_of_linear_ones():
    torch.manual_seed(0)
    part = GroupedLinear(256, 512, 2)
    assert part.weight.std().item() == pytest.approx(0.02, rel=0.02) and not part.bias.any()
