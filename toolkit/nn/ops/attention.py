"""dropout(softmax(scores)) V: the choice between batched products and torch's SDPA, and windows.

On CPUs products beat torch's SDPA in training and in bf16, and with a single query, but not in fp32
inference without a bias (benchmarks/attention_paths.py). GPUs always use SDPA. Within a window, on
CPUs, blocks of queries attend to the keys that any of them reaches: S (block + 2 radius) pairs at
most instead of S^2.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.batched_products import multiply_batch
from toolkit.nn.ops.dispatch import apply_eagerly, fast
from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate

MASKED_SCORE = -30000.0  # finite, so that a row of padding does not become NaN; its exp is 0


def mask_padding_keys(
    scores: Float[Tensor, "B H S T"], padding: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B H S T"]:
    """Lower the scores of padding in place, so that softmax gives it exactly 0."""
    if padding is None:
        return scores
    return scores.add_(padding[:, None, None, :].to(scores.dtype), alpha=MASKED_SCORE)


def softmax(scores: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S T"]:
    """Softmax over the keys; torch's in bf16 on a CPU is slow if rows are not a multiple of 32."""
    if scores.dtype == torch.bfloat16 and scores.device.type == "cpu" and scores.shape[-1] % 32:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    return scores.softmax(-1)


def causal_bias(
    bias: Float[Tensor, "#B #H S T"] | None,
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
) -> Float[Tensor, "#B #H S T"]:
    """The bias with keys to the right masked; the queries are the last S of the T positions."""
    length = k.shape[2]
    mask = torch.full((q.shape[2], length), MASKED_SCORE, dtype=q.dtype, device=q.device)
    mask = mask.triu_(1 + length - q.shape[2])[None, None]
    return mask if bias is None else bias + mask


def attend(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H S T"] | None,
    padding: Bool[Tensor, "B T"] | None,
    *,
    scale: float,
    dropout: float,
    causal: bool = False,
) -> Float[Tensor, "B H S K"]:
    """dropout(softmax(scale q k^T + bias)) v; if causal, over keys on the left only."""
    causal = causal and q.shape[2] > 1  # a single query is the last: all keys are on its left
    by_products = products_are_faster(q, bias, dropout)
    if not by_products:
        k, v = k.to(q.dtype), v.to(q.dtype)  # a cache on a CPU keeps bf16 as fp32
    if causal and bias is None and padding is None and q.shape == k.shape and not by_products:
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, scale=scale, is_causal=True
        )
    if causal:
        bias = causal_bias(bias, q, k)
    if by_products and not dropout and not torch.is_grad_enabled():
        weights = attention_weights(q.to(k.dtype), k, bias, padding, scale)
        return scaled_product(weights, v, 1.0).to(q.dtype)
    if by_products:
        return apply_eagerly(BatchedProducts, q, k, v, bias, padding, scale, dropout)
    mask = None if bias is None else bias.to(q.dtype)
    if padding is not None:
        padding_mask = padding[:, None, None, :].to(q.dtype) * MASKED_SCORE
        mask = padding_mask if mask is None else mask + padding_mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)


def products_are_faster(q: Tensor, bias: Tensor | None, dropout: float) -> bool:
    """Whether plain products are faster than torch's SDPA for these tensors."""
    training, single = dropout > 0 or torch.is_grad_enabled(), q.shape[2] == 1
    half = q.dtype == torch.bfloat16
    return (
        fast("attention")
        and q.device.type == "cpu"
        and (training or single or half or bias is not None)
    )


def scaled_product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """scale a b for matrices with two leading axes, in one call."""
    return multiply_batch(a.flatten(0, 1), b.flatten(0, 1), scale).unflatten(0, a.shape[:2])


def scaled_scores(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H S T"] | None,
    scale: float,
) -> Float[Tensor, "B H S T"]:
    """scale q k^T + bias; in half precision the product is added to the bias, in one pass less."""
    if bias is None or bias.dtype != torch.bfloat16 or q.dtype != torch.bfloat16:
        scores = scaled_product(q, k.mT, scale)
        return scores if bias is None else scores.add_(bias)
    scores = q.new_empty(*q.shape[:3], k.shape[2]).copy_(bias)
    return add_product(scores, q, k, scale)


def add_product(
    scores: Float[Tensor, "B H S T"],
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    scale: float,
) -> Float[Tensor, "B H S T"]:
    """Add scale q k^T in place."""
    flat = scores.flatten(0, 1)
    torch.baddbmm(flat, q.flatten(0, 1), k.mT.flatten(0, 1), alpha=scale, out=flat)
    return scores


def sum_to_bias(
    gradient: Float[Tensor, "B H S T"], shape: torch.Size, dtype: torch.dtype
) -> Float[Tensor, "#B #H S T"]:
    """The gradient of a bias; torch's sum over sentences takes twice as long in bf16."""
    if shape[0] == 1 < len(gradient) and gradient.dtype == torch.bfloat16:
        total = gradient[0].float()
        for sentence in gradient[1:]:
            total += sentence
        gradient = total[None]
    return gradient.sum_to_size(shape).to(dtype)


def attention_weights(
    q: Tensor, k: Tensor, bias: Tensor | None, padding: Tensor | None, scale: float
) -> Tensor:
    """softmax(scale q k^T + bias), with padding masked."""
    # With operands in memory, MKL multiplies matrix by column twice as fast as row by matrix.
    if q.shape[2] == 1:
        scores = scaled_product(k, q.mT, scale).mT
        if bias is not None:
            scores += bias
    else:
        scores = scaled_scores(q, k, bias, scale)
    return softmax(mask_padding_keys(scores, padding))


def attention_backward(
    gradient: Float[Tensor, "B H S K"],
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    weights: Float[Tensor, "B H S T"],
    keep: Tensor | None,
    scale: float,
    dropout_scale: float,
    of_dropped: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and the scores, for the result dropout_scale (weights & keep) v.

    `of_dropped` is the gradient of weights & keep by what else was computed from them.
    """
    dropped = weights if keep is None else apply_keep_mask(weights, keep)
    grad_v = scaled_product(dropped.mT, gradient, dropout_scale)
    grad_weights = scaled_product(gradient, v.mT, dropout_scale)
    if of_dropped is not None:
        grad_weights += of_dropped
    if keep is not None:
        grad_weights = apply_keep_mask(grad_weights, keep)
    grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
    grad_q = scaled_product(grad_scores, k, scale)
    return grad_q, scaled_product(grad_scores.mT, q, scale), grad_v, grad_scores


class BatchedProducts(torch.autograd.Function):
    """Attention for training on a CPU; all operations between its products are in place."""

    @staticmethod
    def forward(ctx, q, k, v, bias, padding, scale, rate):  # type: ignore[no-untyped-def]
        weights = attention_weights(q, k, bias, padding, scale)
        keep = draw_keep_mask(weights.shape, rate) if rate else None
        ctx.scale, ctx.dropout_scale = scale, 1 / (1 - round_rate(rate))
        ctx.bias = (bias.shape, bias.dtype) if ctx.needs_input_grad[3] else None
        ctx.save_for_backward(q, k, v, weights, keep)
        dropped = weights if keep is None else apply_keep_mask(weights, keep)
        return scaled_product(dropped, v, ctx.dropout_scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        q, k, v, weights, keep = ctx.saved_tensors
        grad_q, grad_k, grad_v, grad_scores = attention_backward(
            gradient, q, k, v, weights, keep, ctx.scale, ctx.dropout_scale
        )
        grad_bias = None
        if ctx.bias is not None:
            grad_bias = sum_to_bias(grad_scores, *ctx.bias)
        return grad_q, grad_k, grad_v, grad_bias, None, None, None


MIN_BLOCK = 64
MIN_BLOCKS = 5
"""Shorter sentences are faster with a mask."""


def block_size(radius: int) -> int:
    """Queries of a block: about the radius, a multiple of MIN_BLOCK."""
    return MIN_BLOCK * max(1, round(radius / MIN_BLOCK))


def list_blocks(length: int, radius: int) -> Iterator[tuple[slice, slice]]:
    """Consecutive queries, and the keys within the radius of any of them."""
    size = block_size(radius)
    for start in range(0, length, size):
        end = min(start + size, length)
        yield slice(start, end), slice(max(0, start - radius), min(length, end + radius))


def banded_is_faster(q: Float[Tensor, "B H S K"], radius: int) -> bool:
    """Whether blocks are faster than a mask of all scores."""
    on_cpu = fast("sliding_window") and q.device.type == "cpu" and not torch.compiler.is_exporting()
    return on_cpu and q.shape[2] >= MIN_BLOCKS * block_size(radius)


def banded_attention(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H S K"],
    v: Float[Tensor, "B H S K"],
    padding: Bool[Tensor, "B S"] | None,
    radius: int,
    *,
    scale: float,
    dropout: float,
) -> Float[Tensor, "B H S K"]:
    """dropout(softmax(scale q k^T)) v over the keys at |j - i| <= radius."""
    if not torch.is_grad_enabled():
        q = q.to(k.dtype)
    return apply_eagerly(_Banded, q, k, v, padding, radius, scale, dropout)


class _Banded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, padding, radius, scale, rate):  # type: ignore[no-untyped-def]
        ctx.scale, ctx.dropout_scale = scale, 1 / (1 - round_rate(rate))
        ctx.radius, saved = radius, [q, k, v]
        out = torch.empty_like(q)
        positions = torch.arange(q.shape[2], device=q.device)
        for rows, keys in list_blocks(q.shape[2], radius):
            hidden = None if padding is None else padding[:, keys]
            mask = mask_outside((positions[keys] - positions[rows, None])[None], radius, q.dtype)
            weights = attention_weights(q[:, :, rows], k[:, :, keys], mask, hidden, scale)
            keep = draw_keep_mask(weights.shape, rate) if rate else None
            dropped = weights if keep is None else apply_keep_mask(weights, keep)
            out[:, :, rows] = scaled_product(dropped, v[:, :, keys], ctx.dropout_scale)
            saved += [weights, keep]
        ctx.save_for_backward(*saved)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        q, k, v, *saved = ctx.saved_tensors
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        blocks = list_blocks(q.shape[2], ctx.radius)
        for (rows, keys), weights, keep in zip(blocks, saved[::2], saved[1::2], strict=True):
            operands = q[:, :, rows], k[:, :, keys], v[:, :, keys], weights, keep
            of_q, of_k, of_v, _ = attention_backward(
                gradient[:, :, rows], *operands, ctx.scale, ctx.dropout_scale
            )
            grad_q[:, :, rows] = of_q
            grad_k[:, :, keys] += of_k
            grad_v[:, :, keys] += of_v
        return grad_q, grad_k, grad_v, None, None, None, None


def mask_outside(
    differences: Int[Tensor, "#B S T"], radius: int, dtype: torch.dtype
) -> Float[Tensor, "#B 1 S T"]:
    """0 where |p_j - p_i| <= radius, else a score whose exp is 0 (Beltagy et al. 2020, 3.1)."""
    outside = (differences.abs() > radius).unsqueeze(1)  # (#B, S, T) -> (#B, 1, S, T)
    return outside.to(dtype) * MASKED_SCORE
