"""Biases by offset that are the same for all queries, and a vector per head, with fast gradients.

B batch   S queries   T keys   H heads   O offsets   b different sentences
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.nn.ops.attention import sum_to_bias
from toolkit.nn.ops.dispatch import fast


def read_pair_bias(
    biases: Float[Tensor, "H O"], index: Int[Tensor, "b S T"], repeats: int, dtype: torch.dtype
) -> Float[Tensor, "B H S T"]:
    """out[b, h, i, j] = biases[h, index[b, i, j]]; the first `repeats` sentences share index[0].

    Gradients are summed one after another in fp32, or in fp64.
    """
    scores: Tensor = _PairBias.apply(biases, index, repeats, dtype)
    return scores


class _PairBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, biases, index, repeats, dtype):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(index)
        ctx.repeats, ctx.biases = repeats, (biases.shape, biases.dtype)
        sentences, queries, keys = index.shape
        rows = biases.to(dtype)[None, :, None].expand(sentences, -1, queries, -1)
        scores = rows.new_empty(repeats - 1 + sentences, len(biases), queries, keys)
        by_head = index[:, None].expand(-1, len(biases), -1, -1)
        torch.gather(rows, -1, by_head, out=scores[repeats - 1 :])
        scores[: repeats - 1] = scores[repeats - 1]
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        (index,) = ctx.saved_tensors
        shape, dtype = ctx.biases
        precise = torch.promote_types(dtype, torch.float32)
        sums = torch.zeros(shape, dtype=precise)
        first = sum_to_bias(gradient[: ctx.repeats], gradient[:1].shape, precise)
        for scores, taps in zip([*first, *gradient[ctx.repeats :]], index, strict=True):
            by_head = taps.flatten().expand(len(sums), -1)
            sums.scatter_add_(1, by_head, scores.flatten(1).to(precise))
        return sums.to(dtype), None, None, None


def add_by_head(
    x: Float[Tensor, "B H S K"], bias: Float[Tensor, "H 1 K"]
) -> Float[Tensor, "B H S K"]:
    """x + bias; torch's sum over two separate axes takes ten times as long in bf16 on a CPU."""
    if torch.compiler.is_compiling() or not fast("offset_biases"):
        return x + bias.to(x.dtype)
    y: Tensor = _AddByHead.apply(x, bias)
    return y


class _AddByHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):  # type: ignore[no-untyped-def]
        ctx.dtype = bias.dtype
        return x + bias.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient, gradient.sum(2, keepdim=True).sum(0, dtype=ctx.dtype)
