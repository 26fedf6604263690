"""Every variant of Chang et al. 2021 against the paper's sums, written as loops, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit.models.composite_bert import CompositeBertConfig, build_attention
from toolkit.nn.attention import Attention, Offsets, SequenceContext

WIDTH, HEADS, RADIUS, LENGTHS = 8, 2, 2, (7, 4)
HEAD = WIDTH // HEADS
NONE = {"fixed": False, "dynamic": False}
VARIANTS = {
    "none": NONE,
    "fixed": {"dynamic": False},
    "dynamic": {"fixed": False},
    "composite": {},
    "key": NONE | {"key_dynamic": True},
    "composite + key": {"key_dynamic": True},
    "depthwise": NONE | {"depthwise": True},
    "composite + depthwise": {"depthwise": True},
    "conv QK": NONE | {"convolve": ["query", "key"]},
    "conv V": NONE | {"convolve": ["value"]},
    "conv QKV": NONE | {"convolve": ["query", "key", "value"]},
    "composite + QK": {"convolve": ["query", "key"]},
    "composite + V": {"convolve": ["value"]},
    "everything": {"key_dynamic": True, "depthwise": True, "convolve": ["query", "value"]},
}


def variant(name: str) -> tuple[Attention, CompositeBertConfig]:
    """The attention of one variant in float64, every number of it random."""
    c = CompositeBertConfig(
        width=WIDTH, heads=HEADS, radius=RADIUS, attention_dropout=0.0, **VARIANTS[name]
    )
    torch.manual_seed(0)
    attention = build_attention(c).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    return attention, c


def sentences(positions: torch.Tensor | None = None) -> tuple[torch.Tensor, SequenceContext]:
    x = torch.randn(len(LENGTHS), max(LENGTHS), WIDTH, dtype=torch.float64)
    padding = torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS)[:, None]
    return x, SequenceContext(Offsets(positions, max(LENGTHS), x.device), padding)


def convolved(x, convolution):
    """b_c + sum_m w_{c,m} x_{i+m,c}, nothing beyond the ends."""
    w, b = convolution.convolution.weight, convolution.convolution.bias
    y = torch.zeros_like(x)
    for i in range(len(x)):
        for channel in range(WIDTH):
            y[i, channel] = b[channel]
            for m in range(-RADIUS, RADIUS + 1):
                if 0 <= i + m < len(x):
                    y[i, channel] += w[channel, 0, m + RADIUS] * x[i + m, channel]
    return y


def applied(x, linear):
    return torch.stack([linear.weight @ row + linear.bias for row in x])


def projected(x, attention, c):
    """q, k, v as [S, D] each; the first half of a convolved one sees its neighbors."""
    if not c.convolve:
        return applied(x, attention.project.qkv).split(WIDTH, dim=-1)
    together = []
    for part in attention.project.parts.values():
        if isinstance(part, torch.nn.Linear):
            together.append(applied(x, part))
        else:
            near = applied(convolved(x, part.depthwise), part.convolved)
            together.append(torch.cat([near, applied(x, part.linear)], dim=-1))
    return together


def tap(offset):
    return max(-RADIUS, min(RADIUS, offset)) + RADIUS


def score(q, k, i, j, head, kernels, offset):
    """Equation 6 and its companions, for one pair of places."""
    total = q @ k / math.sqrt(HEAD)
    if "FixedKernel" in kernels:
        total = total + kernels["FixedKernel"].taps[head, tap(offset(i, j))]
    if "QueryKernel" in kernels:
        w = kernels["QueryKernel"].directions
        total = total + q @ w[:, tap(offset(i, j))] / math.sqrt(HEAD)
    if "KeyKernel" in kernels:
        w = kernels["KeyKernel"].directions
        total = total + k @ w[:, tap(offset(j, i))] / math.sqrt(HEAD)
    return total


def by_loops(attention, c, x, offset=lambda i, j: j - i):
    """One sentence without padding."""
    kernels = {type(k).__name__: k for term in attention.map.terms for k in term.kernels}
    q, k, v = projected(x, attention, c)
    context = torch.zeros_like(x)
    for head in range(HEADS):
        mine = slice(head * HEAD, (head + 1) * HEAD)
        for i in range(len(x)):
            row = [
                score(q[i, mine], k[j, mine], i, j, head, kernels, offset) for j in range(len(x))
            ]
            for j, weight in enumerate(torch.stack(row).softmax(0)):
                context[i, mine] += weight * v[j, mine]
    if c.depthwise:
        context = context + convolved(v, attention.values.convolution)
    return applied(context, attention.output)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_equals_the_papers_loops_with_padding_beside_it(name):
    attention, c = variant(name)
    x, places = sentences()
    got = attention(x, places)
    for sentence, length in enumerate(LENGTHS):
        want = by_loops(attention, c, x[sentence, :length])
        torch.testing.assert_close(got[sentence, :length], want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["fixed", "dynamic", "composite + key"])
def test_kernels_follow_position_ids_sentence_by_sentence(name):
    attention, c = variant(name)
    positions = torch.stack([torch.randperm(max(LENGTHS)) for _ in LENGTHS])
    x, places = sentences(positions)
    got = attention(x, places)
    for sentence, length in enumerate(LENGTHS):
        p = positions[sentence].tolist()
        want = by_loops(attention, c, x[sentence, :length], lambda i, j, p=p: p[j] - p[i])
        torch.testing.assert_close(got[sentence, :length], want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_map_shown_is_the_map_applied(name):
    attention, _ = variant(name)
    x, places = sentences()
    p = attention.project(x, places)
    weights = attention.map(p)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    torch.testing.assert_close(weights @ p.v, attention.map.average(p), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["composite + key", "everything"])
def test_gradients_equal_those_of_the_loops(name):
    attention, c = variant(name)
    x, places = sentences()
    mine = [*attention.parameters()]
    got = torch.autograd.grad(attention(x, places)[1, : LENGTHS[1]].square().sum(), mine)
    want = torch.autograd.grad(by_loops(attention, c, x[1, : LENGTHS[1]]).square().sum(), mine)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


def test_kernels_start_as_in_the_authors_code():
    c = CompositeBertConfig(depthwise=True, convolve=["query"], key_dynamic=True)
    attention = build_attention(c)
    bound = 1 / math.sqrt(2 * c.radius + 1)
    kernels = [kernel for term in attention.map.terms for kernel in term.kernels]
    assert not kernels[0].taps.any()
    for drawn in (kernels[1].directions, kernels[2].directions, attention.values.convolution):
        tensors = [drawn] if isinstance(drawn, torch.Tensor) else [*drawn.parameters()]
        for tensor in tensors:
            assert 0.9 * bound < tensor.abs().max() <= bound
