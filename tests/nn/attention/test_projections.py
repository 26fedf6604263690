"""Projections: order of heads, convolved heads and temperatures."""

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.nn.attention import (
    ConvolvedProjections,
    LinearProjections,
    Offsets,
    SequenceContext,
    TemperedProjections,
)
from toolkit.nn.attention.projections import split_heads

B, S, D, H = 2, 6, 8, 4
K = D // H


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(B, S, D)


def context(padding=None):
    return SequenceContext(Offsets(None, S, torch.device("cpu")), padding)


def test_heads_are_consecutive_slices(x):
    torch.testing.assert_close(split_heads(x, H)[1, 2, 3], x[1, 3, 2 * K : 3 * K])


def test_linear_projections_compute_queries_keys_and_values_in_one_product(x):
    project = LinearProjections(D, H)
    p = project(x, context())
    for i, part in enumerate((p.q, p.k, p.v)):
        rows = slice(i * D, (i + 1) * D)
        weight, bias = project.qkv.weight[rows], project.qkv.bias[rows]
        torch.testing.assert_close(
            part, split_heads(torch.nn.functional.linear(x, weight, bias), H)
        )
    assert p.x is x


@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_convolved_projections_convolve_the_first_half_of_the_named_heads(part, x):
    torch.manual_seed(1)
    project = ConvolvedProjections(D, H, 1, [part])
    changed = x.clone()
    changed[:, 3] += 1.0
    before, after = project(x, context()), project(changed, context())
    for name, old, new in zip(("query", "key", "value"), before[:3], after[:3], strict=True):
        differs = (old != new).any(0).any(-1)  # (B, H, S, K) -> (H, S)
        expected = [2, 3, 4] if name == part else [3]
        assert differs[: H // 2].any(0).nonzero().flatten().tolist() == expected
        assert differs[H // 2 :].any(0).nonzero().flatten().tolist() == [3]


def test_convolved_projections_ignore_padding(x):
    project = ConvolvedProjections(D, H, 2, ["query", "key", "value"])
    padding = torch.arange(S).expand(B, S) >= 4
    changed = x.masked_fill(padding[..., None], 9.0)
    before, after = project(x, context(padding)), project(changed, context(padding))
    for a, b in zip(before[:3], after[:3], strict=True):
        torch.testing.assert_close(a[:, :, :4], b[:, :, :4])


def test_convolved_projections_reject_an_odd_number_of_heads():
    expected = r"heads must be even if projections are convolved, but is 3. Change arch.heads"
    with pytest.raises(ToolkitError, match=expected):
        ConvolvedProjections(9, 3, 1, ["query"])


def test_tempered_projections_scale_queries_keys_and_values_per_head(x):
    project = TemperedProjections(8, 2, temperature=True)
    plain = project(x, context())
    with torch.no_grad():
        project.temperature.copy_(torch.tensor([[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]))
    scaled = project(x, context())
    for name, factors in (("q", (2.0, 3.0)), ("k", (4.0, 5.0)), ("v", (6.0, 7.0))):
        by_head = torch.tensor(factors)[None, :, None, None]
        torch.testing.assert_close(getattr(scaled, name), by_head * getattr(plain, name))


def test_tempered_projections_initialize_each_head_as_a_separate_matrix():
    weight = TemperedProjections(364, 4, temperature=False).qkv.weight
    std = (2 / (364 + 91)) ** 0.5
    for head in weight.split(91):
        assert abs(head.std().item() - std) < 0.02 * std
