"""Queries, keys and values: heads where they belong, convolutions in the first half of them."""

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention import ConvolvedProjections, LinearProjections, Offsets, SequenceContext
from toolkit.nn.attention.projections import split_heads

B, S, D, H = 2, 6, 8, 4
K = D // H


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(B, S, D)


def places(padding=None):
    return SequenceContext(Offsets(None, S, torch.device("cpu")), padding)


def test_heads_are_consecutive_slices_of_the_width(x):
    torch.testing.assert_close(split_heads(x, H)[1, 2, 3], x[1, 3, 2 * K : 3 * K])


def test_one_product_gives_queries_keys_and_values(x):
    project = LinearProjections(D, H)
    p = project(x, places())
    for place, part in enumerate((p.q, p.k, p.v)):
        rows = slice(place * D, (place + 1) * D)
        weight, bias = project.qkv.weight[rows], project.qkv.bias[rows]
        torch.testing.assert_close(
            part, split_heads(torch.nn.functional.linear(x, weight, bias), H)
        )
    assert p.x is x


@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_a_named_part_sees_its_neighbors_in_the_first_half_of_its_heads_alone(part, x):
    torch.manual_seed(1)
    project = ConvolvedProjections(D, H, 1, [part])
    moved = x.clone()
    moved[:, 3] += 1.0
    before, after = project(x, places()), project(moved, places())
    for name, one, two in zip(("query", "key", "value"), before[:3], after[:3], strict=True):
        seen = (one != two).any(0).any(-1)  # (B, H, S, K) -> (H, S)
        near = [2, 3, 4] if name == part else [3]
        assert seen[: H // 2].any(0).nonzero().flatten().tolist() == near
        assert seen[H // 2 :].any(0).nonzero().flatten().tolist() == [3]


def test_convolved_projections_do_not_see_padding(x):
    project = ConvolvedProjections(D, H, 2, ["query", "key", "value"])
    padding = torch.arange(S).expand(B, S) >= 4
    other = x.masked_fill(padding[..., None], 9.0)
    one, two = project(x, places(padding)), project(other, places(padding))
    for a, b in zip(one[:3], two[:3], strict=True):
        torch.testing.assert_close(a[:, :, :4], b[:, :, :4])


def test_an_odd_number_of_heads_cannot_be_halved():
    expected = r"heads must be even if projections are convolved, but is 3. Change arch.heads"
    with pytest.raises(ToolkitError, match=expected):
        ConvolvedProjections(9, 3, 1, ["query"])
