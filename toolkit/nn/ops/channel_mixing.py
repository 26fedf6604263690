"""A convolution over attention maps on a CPU: by sentences, while they are in its cache.

Between the maps and their gradients torch would copy each of them twice more.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

leaky_relu_backward = torch.ops.aten.leaky_relu_backward.grad_input


@torch.compiler.disable  # type: ignore[untyped-decorator]
def mix_maps(
    maps: Sequence[Float[Tensor, "B _ S T"]],
    weight: Float[Tensor, "H C"],
    bias: Float[Tensor, " H"],
    slope: Float[Tensor, " H"],
) -> Float[Tensor, "B H S T"]:
    """PReLU(W * [maps] + b), W a 1x1 convolution and the maps' channels side by side."""
    kind = maps[0].dtype
    out: Tensor = _MixMaps.apply(weight.to(kind), bias.to(kind), slope, *maps)
    return out


class _MixMaps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, bias, slope, *maps):  # type: ignore[no-untyped-def]
        batch, _, *places = maps[0].shape
        together = maps[0].new_empty(batch, weight.shape[1], *places)
        before = maps[0].new_empty(batch, weight.shape[0], *places)
        after = torch.empty_like(before)
        ctx.channels, slopes = [m.shape[1] for m in maps], slope.tolist()
        for number in range(batch):
            parts = together[number].split(ctx.channels)
            for part, m in zip(parts, maps, strict=True):
                part.copy_(m[number])
            flat = before[number].flatten(1)
            torch.addmm(bias[:, None], weight, together[number].flatten(1), out=flat)
            for h, a in enumerate(slopes):
                torch.ops.aten.leaky_relu.out(before[number, h], a, out=after[number, h])
        ctx.save_for_backward(weight, slope, together, before)
        return after

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        weight, slope, together, before = ctx.saved_tensors
        exact = torch.promote_types(weight.dtype, torch.float32)
        sums = [torch.zeros_like(x, dtype=exact) for x in (weight, slope, slope)]
        maps = [together.new_empty(len(together), c, *together.shape[2:]) for c in ctx.channels]
        (of_weight, of_bias, of_slope), slopes = sums, slope.tolist()
        across = weight.t().contiguous()
        g, of_all = torch.empty_like(before[0]), torch.empty_like(together[0])
        for number, given in enumerate(gradient):
            for h, a in enumerate(slopes):
                leaky_relu_backward(given[h], before[number, h], a, False, grad_input=g[h])
            of_slope += before[number].clamp(max=0).mul_(given).flatten(1).sum(1)
            of_bias += g.flatten(1).sum(1)
            of_weight += g.flatten(1) @ together[number].flatten(1).mT
            torch.mm(across, g.flatten(1), out=of_all.flatten(1))
            for part, out in zip(of_all.split(ctx.channels), maps, strict=True):
                out[number].copy_(part)
        return of_weight.to(weight.dtype), of_bias.to(weight.dtype), of_slope.to(slope.dtype), *maps
