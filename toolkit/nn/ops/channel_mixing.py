"""PReLU of a 1x1 convolution over attention maps on a CPU, sentence by sentence in its cache.

Torch's operations would copy each map and each gradient twice more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dispatch import compile_disabled, fast

leaky_relu_backward = torch.ops.aten.leaky_relu_backward.grad_input


@compile_disabled
def mix_maps(
    maps: Sequence[Float[Tensor, "B _ S T"]],
    weight: Float[Tensor, "H C"],
    bias: Float[Tensor, " H"],
    slope: Float[Tensor, " H"],
) -> Float[Tensor, "B H S T"]:
    """PReLU(W * [maps] + b), W a 1x1 convolution over the channels of all maps."""
    dtype = maps[0].dtype
    if torch.compiler.is_exporting() or not fast("channel_mixing"):
        mixed = F.conv2d(
            torch.cat(list(maps), 1), weight.to(dtype)[..., None, None], bias.to(dtype)
        )
        return F.prelu(mixed, slope.to(dtype))
    out: Tensor = _MixMaps.apply(weight.to(dtype), bias.to(dtype), slope, *maps)
    return out


class _MixMaps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, bias, slope, *maps):  # type: ignore[no-untyped-def]
        batch, _, *size = maps[0].shape
        inputs = maps[0].new_empty(batch, weight.shape[1], *size)
        mixed = maps[0].new_empty(batch, weight.shape[0], *size)
        out = torch.empty_like(mixed)
        ctx.channels, slopes = [m.shape[1] for m in maps], slope.tolist()
        for b in range(batch):
            for part, m in zip(inputs[b].split(ctx.channels), maps, strict=True):
                part.copy_(m[b])
            torch.addmm(bias[:, None], weight, inputs[b].flatten(1), out=mixed[b].flatten(1))
            for h, a in enumerate(slopes):
                torch.ops.aten.leaky_relu.out(mixed[b, h], a, out=out[b, h])
        ctx.save_for_backward(weight, slope, inputs, mixed)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        weight, slope, inputs, mixed = ctx.saved_tensors
        dtype, slopes = torch.promote_types(weight.dtype, torch.float32), slope.tolist()
        grad_weight, grad_bias, grad_slope = (
            torch.zeros_like(x, dtype=dtype) for x in (weight, slope, slope)
        )
        grad_maps = [inputs.new_empty(len(inputs), c, *inputs.shape[2:]) for c in ctx.channels]
        weight_t = weight.t().contiguous()
        g, grad_inputs = torch.empty_like(mixed[0]), torch.empty_like(inputs[0])
        for b, grad_out in enumerate(gradient):
            for h, a in enumerate(slopes):
                leaky_relu_backward(grad_out[h], mixed[b, h], a, False, grad_input=g[h])
            grad_slope += mixed[b].clamp(max=0).mul_(grad_out).flatten(1).sum(1)
            grad_bias += g.flatten(1).sum(1)
            grad_weight += g.flatten(1) @ inputs[b].flatten(1).mT
            torch.mm(weight_t, g.flatten(1), out=grad_inputs.flatten(1))
            for part, out in zip(grad_inputs.split(ctx.channels), grad_maps, strict=True):
                out[b].copy_(part)
        grad_weight, grad_bias = grad_weight.to(weight.dtype), grad_bias.to(weight.dtype)
        return grad_weight, grad_bias, grad_slope.to(slope.dtype), *grad_maps
