"""LightConv and DynamicConv against the sums of Wu et al. 2019, written as loops, in float64."""

from __future__ import annotations

import pytest
import torch

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Sizes
from toolkit.nn.attention import Offsets, SequenceContext

LENGTHS = (9, 4)
SHAPE = {"width": 12, "heads": 3, "feed_forward_width": 8}
KERNELS = [1, 3, 7, 31]
SIDES = ["encoder", "decoder"]


def sublayer(name, side, size, **changes):
    """The convolution of one layer with so many taps, every number of it random."""
    torch.manual_seed(0)
    entry = ARCHITECTURES[f"{name}_tiny"]
    kernels = {"encoder_kernels": [size], "decoder_kernels": [size]}
    config = type(entry.config)(**SHAPE, **kernels, **changes)
    own = (
        getattr(entry.factory(config, Sizes(tokens=5)).eval().double(), side)
        .layers[0]
        .self_attention
    )
    for parameter in own.parameters():
        torch.nn.init.normal_(parameter)
    return own


def batch(side):
    x = torch.randn(len(LENGTHS), max(LENGTHS), SHAPE["width"], dtype=torch.float64)
    padding = torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS)[:, None]
    offsets = Offsets(None, max(LENGTHS), x.device)
    causal = side == "decoder"  # where what pads a sentence lies to the right, unseen
    return x, SequenceContext(offsets, None if causal else padding, causal=causal)


def kernel(own, x_i, head):
    """softmax over the taps of one head (eq. 3, 5)."""
    part = own.map.kernel
    if hasattr(part, "taps"):
        return part.taps[head].softmax(-1)
    size = own.map.size
    return (part.generate.weight[head * size : (head + 1) * size] @ x_i).softmax(-1)


def by_loops(own, x, side):
    """One sentence: GLU, convolution channel by channel, output (figure 2 b, c)."""
    rows = torch.stack([own.project.project.weight @ row + own.project.project.bias for row in x])
    if own.project.gated:
        first, second = rows.chunk(2, -1)
        rows = first * torch.sigmoid(second)
    out, size = torch.zeros_like(rows), own.map.size
    left = size - 1 if side == "decoder" else size // 2
    for i in range(len(rows)):
        for channel in range(SHAPE["width"]):
            weights = kernel(own, rows[i], channel * SHAPE["heads"] // SHAPE["width"])
            for tap in range(size):
                if 0 <= i + tap - left < len(rows):
                    out[i, channel] += weights[tap] * rows[i + tap - left, channel]
    return torch.stack([own.output.weight @ row + own.output.bias for row in out])


@pytest.mark.parametrize("name", ["lightconv", "dynamicconv"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("size", KERNELS)
def test_a_convolution_equals_the_papers_loops_with_padding_beside_it(name, side, size):
    own, (x, places) = sublayer(name, side, size), batch(side)
    got = own(x, places)
    for sentence, length in enumerate(LENGTHS):
        want = by_loops(own, x[sentence, :length], side)
        torch.testing.assert_close(got[sentence, :length], want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["lightconv", "dynamicconv"])
def test_without_the_gate_too(name):
    own, (x, places) = sublayer(name, "encoder", 3, gated=False), batch("encoder")
    want = by_loops(own, x[0], "encoder")
    torch.testing.assert_close(own(x, places)[0], want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["lightconv", "dynamicconv"])
@pytest.mark.parametrize("side", SIDES)
def test_gradients_equal_those_of_the_loops(name, side):
    own, (x, places) = sublayer(name, side, 7), batch(side)
    mine = [*own.parameters()]
    got = torch.autograd.grad(own(x, places)[1, : LENGTHS[1]].square().sum(), mine)
    loops = by_loops(own, x[1, : LENGTHS[1]], side)
    want = torch.autograd.grad(loops.square().sum(), mine)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", ["lightconv", "dynamicconv"])
@pytest.mark.parametrize("side", SIDES)
def test_the_map_shown_is_the_one_applied(name, side):
    own, (x, places) = sublayer(name, side, 7), batch(side)
    p = own.project(x, places)
    torch.testing.assert_close(own.map(p) @ p.v, own.map.average(p), atol=1e-12, rtol=0)
