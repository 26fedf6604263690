"""ConvBERT's mixed attention against the paper's sums, written as loops, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit.models.convbert import ConvBertConfig, build_attention
from toolkit.nn.attention import Offsets, SequenceContext
from toolkit.nn.layers import FeedForward

LENGTHS = (7, 4)
SHAPE = {"width": 12, "heads": 4, "kernel_size": 5, "attention_dropout": 0.0}
VARIANTS = {
    "span": {},
    "dynamic": {"conv_type": "dynamic"},
    "conventional": {"conv_type": "conventional"},
    "none": {"conv_type": "none"},
    "none, all heads": {"conv_type": "none", "head_ratio": 1},
    "three of four heads gone": {"head_ratio": 4},
    "generator of one head": {"heads": 1},
    "shared value": {"share_value": True},
    "shared value, dynamic": {"share_value": True, "conv_type": "dynamic"},
    "Chang": {"depthwise_bias": True, "renormalize_at_boundaries": True},
    "kernel of one tap": {"kernel_size": 1},
    "kernel beyond the sentence": {"kernel_size": 17},
}


def variant(name, **changes):
    """The attention of one variant, every number of it random, and a batch with padding."""
    torch.manual_seed(0)
    c = ConvBertConfig(**{**SHAPE, **VARIANTS[name], **changes})
    attention = build_attention(c).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(len(LENGTHS), max(LENGTHS), c.width, dtype=torch.float64)
    padding = torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS)[:, None]
    return attention, c, x, SequenceContext(Offsets(None, max(LENGTHS), x.device), padding)


def applied(x, linear):
    return torch.stack([linear.weight @ row + linear.bias for row in x])


def neighbors(i, length, c):
    """(tap, place) for every tap over the sentence."""
    places = [
        (m + c.kernel_size // 2, i + m)
        for m in range(-(c.kernel_size // 2), c.kernel_size // 2 + 1)
    ]
    return [(tap, j) for tap, j in places if 0 <= j < length]


def separable(x, module, c):
    """b + U sum_m w_m x_{i+m}, channel by channel."""
    w, bias = module.depthwise.convolution.weight, module.depthwise.convolution.bias
    near = torch.zeros_like(x)
    for i in range(len(x)):
        for tap, j in neighbors(i, len(x), c):
            near[i] += w[:, 0, tap] * x[j]
        if bias is not None:
            near[i] += bias
    return applied(near, module.pointwise)


def kernel(x, q, i, attention, c):
    """softmax(W_f (q_i * ks_i)) by head (eq. 4); without ks, eq. 3."""
    module = attention.values.convolution.kernel
    shown = q[i] * separable(x, module.span, c)[i] if c.conv_type == "span" else q[i]
    taps = (module.generate.weight @ shown + module.generate.bias).view(c.attention_heads, -1)
    if not c.renormalize_at_boundaries:
        return taps.softmax(-1)
    inside = [tap for tap, _ in neighbors(i, len(x), c)]
    weights = torch.zeros_like(taps)
    weights[:, inside] = taps[:, inside].softmax(-1)
    return weights


def convolved(x, q, v, attention, c):
    """LConv(V, kernel) (eq. 5), or a conventional convolution."""
    if c.conv_type == "conventional":
        return separable(x, attention.values.convolution.separable, c)
    out = torch.zeros_like(v)
    for i in range(len(x)):
        weights = kernel(x, q, i, attention, c)
        for head in range(c.attention_heads):
            mine = slice(head * c.head_width, (head + 1) * c.head_width)
            for tap, j in neighbors(i, len(x), c):
                out[i, mine] += weights[head, tap] * v[j, mine]
    return out


def attended(q, k, v, c):
    out = torch.zeros_like(v)
    for head in range(c.attention_heads):
        mine = slice(head * c.head_width, (head + 1) * c.head_width)
        for i in range(len(q)):
            row = [q[i, mine] @ k[j, mine] / math.sqrt(c.head_width) for j in range(len(q))]
            for j, weight in enumerate(torch.stack(row).softmax(0)):
                out[i, mine] += weight * v[j, mine]
    return out


def by_loops(attention, c, x):
    """One sentence, all of whose places the convolutions see (eq. 6)."""
    q, k, v, *own = applied(x, attention.project.qkv).split(
        c.attention_heads * c.head_width, dim=-1
    )
    context = [attended(q, k, v, c)]
    if c.conv_type != "none":
        context.append(convolved(x, q, own[0] if own else v, attention, c))
    return applied(torch.cat(context, -1), attention.output)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_equals_the_papers_loops_with_padding_beside_it(name):
    attention, c, x, places = variant(name)
    got = attention(x, places)
    for sentence, length in enumerate(LENGTHS):
        want = by_loops(attention, c, x[sentence, :length])
        torch.testing.assert_close(got[sentence, :length], want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["span", "dynamic", "conventional"])
def test_gradients_equal_those_of_the_loops(name):
    attention, c, x, places = variant(name)
    mine = [*attention.parameters()]
    got = torch.autograd.grad(attention(x, places)[1, : LENGTHS[1]].square().sum(), mine)
    want = torch.autograd.grad(by_loops(attention, c, x[1, : LENGTHS[1]]).square().sum(), mine)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["span", "dynamic", "conventional", "Chang"])
def test_convolutions_see_padding_where_they_are_told_to(name):
    attention, c, x, places = variant(name, convolve_padding=True)
    got = attention(x, places)
    # Padding that convolutions see and attention does not: the loops' attention with fewer keys.
    q, k, v, *own = applied(x[1], attention.project.qkv).split(
        c.attention_heads * c.head_width, dim=-1
    )
    n = LENGTHS[1]
    near = convolved(x[1], q, own[0] if own else v, attention, c)[:n]
    context = torch.cat([attended(q[:n], k[:n], v[:n], c), near], -1)
    torch.testing.assert_close(got[1, :n], applied(context, attention.output), atol=1e-9, rtol=0)


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_a_grouped_network_equals_the_papers_loops(groups):
    torch.manual_seed(0)
    network = FeedForward(6, 12, groups).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(1, 4, 6, dtype=torch.float64)
    inner = torch.nn.functional.gelu(grouped(x[0], network.wide, groups))
    torch.testing.assert_close(network(x)[0], grouped(inner, network.back, groups))


def grouped(x, part, groups):
    """Group g maps columns g d/g .. (g + 1) d/g on those of its own (eq. 7)."""
    if groups == 1:
        return applied(x, part)
    columns = [
        [
            part.weight[g].T @ row
            for row in x[:, g * len(part.weight[g]) :][:, : len(part.weight[g])]
        ]
        for g in range(groups)
    ]
    return torch.cat([torch.stack(rows) for rows in columns], -1) + part.bias
