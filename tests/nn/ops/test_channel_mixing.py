import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.channel_mixing import mix_maps

BATCH, HEADS, LENGTH, CHANNELS = 2, 3, 5, (3, 2, 3)


def given(dtype):
    torch.manual_seed(0)
    maps = [torch.randn(BATCH, c, LENGTH, LENGTH, dtype=dtype) for c in CHANNELS]
    maps[1] = maps[1].mT  # as positions to content come
    weight, bias = torch.randn(HEADS, sum(CHANNELS), dtype=dtype), torch.randn(HEADS, dtype=dtype)
    slope = torch.tensor([0.25, 0.0, -0.5], dtype=torch.promote_types(dtype, torch.float32))
    return [x.requires_grad_() for x in (weight, bias, slope, *maps)]


def by_torch(weight, bias, slope, *maps):
    return F.prelu(F.conv2d(torch.cat(maps, 1), weight[:, :, None, None], bias), slope.to(bias))


def by_sentences(weight, bias, slope, *maps):
    return mix_maps(maps, weight, bias, slope)


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.bfloat16, 0.05)])
def test_maps_and_all_gradients_are_those_of_torchs_convolution_and_prelu(dtype, near):
    inputs = given(dtype)
    outputs = [by_torch(*inputs), by_sentences(*inputs)]
    gradient = torch.randn_like(outputs[0])
    found = [(out, *torch.autograd.grad(out, inputs, gradient)) for out in outputs]
    for theirs, mine in zip(*found, strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=near, atol=near)


def test_a_transposed_gradient_is_taken():
    inputs = given(torch.float64)
    gradient = torch.randn(BATCH, HEADS, LENGTH, LENGTH, dtype=torch.float64).mT
    outputs = [by_torch(*inputs), by_sentences(*inputs)]
    theirs, mine = (torch.autograd.grad(out, inputs, gradient) for out in outputs)
    for a, b in zip(theirs, mine, strict=True):
        torch.testing.assert_close(a, b)
