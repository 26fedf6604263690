import pytest
import torch
from torch.nn import functional as F

from toolkit.nn.ops.channel_mixing import mix_maps

BATCH, HEADS, LENGTH, CHANNELS = 2, 3, 5, (3, 2, 3)


def make_inputs(dtype):
    torch.manual_seed(0)
    maps = [torch.randn(BATCH, c, LENGTH, LENGTH, dtype=dtype) for c in CHANNELS]
    maps[1] = maps[1].mT  # strided, as the position-to-content maps are
    weight, bias = torch.randn(HEADS, sum(CHANNELS), dtype=dtype), torch.randn(HEADS, dtype=dtype)
    slope = torch.tensor([0.25, 0.0, -0.5], dtype=torch.promote_types(dtype, torch.float32))
    return [x.requires_grad_() for x in (weight, bias, slope, *maps)]


def reference(weight, bias, slope, *maps):
    return F.prelu(F.conv2d(torch.cat(maps, 1), weight[:, :, None, None], bias), slope.to(bias))


def fast(weight, bias, slope, *maps):
    return mix_maps(maps, weight, bias, slope)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 0.05)])
def test_mix_maps_and_its_gradients_equal_torchs_convolution_and_prelu(dtype, tolerance):
    inputs = make_inputs(dtype)
    outputs = [reference(*inputs), fast(*inputs)]
    gradient = torch.randn_like(outputs[0])
    results = [(out, *torch.autograd.grad(out, inputs, gradient)) for out in outputs]
    for expected, actual in zip(*results, strict=True):
        assert actual.dtype == expected.dtype
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_mix_maps_accepts_a_transposed_gradient():
    inputs = make_inputs(torch.float64)
    gradient = torch.randn(BATCH, HEADS, LENGTH, LENGTH, dtype=torch.float64).mT
    outputs = [reference(*inputs), fast(*inputs)]
    torch.testing.assert_close(*(torch.autograd.grad(out, inputs, gradient) for out in outputs))
