"""The one place that chooses how dropout(softmax(scores)) V is computed.

Measured by benchmarks/attention_paths.py on a CPU with AVX512_BF16, lengths 64 to 2048: products
beat torch's scaled_dot_product_attention 2 to 6 times in bf16 training, with and without bias and
dropout, 1.2 to 1.7 times in fp32 training with dropout, and 2 times in bf16 inference; in fp32
inference without a bias SDPA is 1.1 to 1.4 times faster, but for a single query products are some 2
times. On GPUs SDPA is taken unmeasured.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate

MASKED_SCORE = -30000.0  # finite, so that a row of padding alone stays a number; exp(HIDDEN) is 0


def mask_padding_keys(
    scores: Float[Tensor, "B H S T"], padding: Bool[Tensor, "B T"] | None
) -> Float[Tensor, "B H S T"]:
    """Scores of padding so low that softmax gives it exactly 0; in place."""
    if padding is None:
        return scores
    return scores.add_(padding[:, None, None, :].to(scores.dtype), alpha=MASKED_SCORE)


def softmax(scores: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S T"]:
    """Softmax over the keys.

    Torch's of bf16 on a CPU takes 2 to 6 times as long where rows are no multiple of 32.
    """
    if scores.dtype == torch.bfloat16 and scores.device.type == "cpu" and scores.shape[-1] % 32:
        return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)
    return scores.softmax(-1)


def causal_bias(
    bias: Float[Tensor, "#B H S T"] | None,
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
) -> Float[Tensor, "#B #H S T"]:
    """The bias, which hides the keys to the right; the queries are the last S of the T places."""
    length = k.shape[2]
    hidden = torch.full((q.shape[2], length), MASKED_SCORE, dtype=q.dtype, device=q.device)
    hidden = hidden.triu_(1 + length - q.shape[2])[None, None]
    return hidden if bias is None else bias + hidden


def attend(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B H S T"] | None,
    padding: Bool[Tensor, "B T"] | None,
    *,
    scale: float,
    dropout: float,
    causal: bool = False,
) -> Float[Tensor, "B H S K"]:
    """dropout(softmax(scale q k^T + bias)) v; `causal`, of keys on the left alone."""
    causal = causal and q.shape[2] > 1  # one query is the last place: all keys are on its left
    by_products = products_are_faster(q, bias, dropout)
    if causal and bias is None and padding is None and q.shape == k.shape and not by_products:
        return F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, scale=scale, is_causal=True
        )
    if causal:
        bias = causal_bias(bias, q, k)
    if by_products and not dropout and not torch.is_grad_enabled():
        return inference_products(q, k, v, bias, padding, scale)
    if by_products:
        return batched_products(q, k, v, bias, padding, scale=scale, dropout=dropout)
    mask = None if bias is None else bias.to(q.dtype)
    if padding is not None:
        hidden = padding[:, None, None, :].to(q.dtype) * MASKED_SCORE
        mask = hidden if mask is None else mask + hidden
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)


def products_are_faster(q: Tensor, bias: Tensor | None, dropout: float) -> bool:
    learning, single = dropout > 0 or torch.is_grad_enabled(), q.shape[2] == 1
    half = q.dtype == torch.bfloat16
    return q.device.type == "cpu" and (learning or single or half or bias is not None)


# Bits seen as other integers are beyond the compiler.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def batched_products(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H S T"] | None,
    padding: Bool[Tensor, "B T"] | None,
    *,
    scale: float,
    dropout: float,
) -> Float[Tensor, "B H S K"]:
    """The same on the CPU, as plain products with everything between them in place."""
    context: Tensor = _BatchedProducts.apply(q, k, v, bias, padding, scale, dropout)
    return context


def scaled_product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """scale a b for stacks of matrices with two leading axes, the scale for free."""
    left, right = a.flatten(0, 1), b.flatten(0, 1)
    out = left.new_empty(left.shape[0], left.shape[1], right.shape[2])
    return torch.baddbmm(out, left, right, beta=0, alpha=scale, out=out).unflatten(0, a.shape[:2])


def inference_products(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, padding: Tensor | None, scale: float
) -> Tensor:
    """The same where nothing is learned: no more than the numbers, in the format of the keys."""
    weights = attention_weights(q.to(k.dtype), k, bias, padding, scale)
    return scaled_product(weights, v, 1.0).to(q.dtype)


def attention_weights(
    q: Tensor, k: Tensor, bias: Tensor | None, padding: Tensor | None, scale: float
) -> Tensor:
    """softmax(scale q k^T + bias), padding hidden."""
    # A matrix by a column costs MKL half as much as a row by a matrix, where they come from memory.
    single = q.shape[2] == 1
    scores = scaled_product(k, q.mT, scale).mT if single else scaled_product(q, k.mT, scale)
    if bias is not None:
        scores += bias
    return softmax(mask_padding_keys(scores, padding))


class _BatchedProducts(torch.autograd.Function):
    """Plain batched products; everything between them works in place."""

    @staticmethod
    def forward(ctx, q, k, v, bias, padding, scale, rate):  # type: ignore[no-untyped-def]
        weights = attention_weights(q, k, bias, padding, scale)
        kept = draw_keep_mask(weights.shape, rate) if rate else None
        ctx.scale, ctx.up = scale, 1 / (1 - round_rate(rate))
        ctx.bias = (bias.shape, bias.dtype) if ctx.needs_input_grad[3] else None
        ctx.save_for_backward(q, k, v, weights, kept)
        return scaled_product(
            weights if kept is None else apply_keep_mask(weights, kept), v, ctx.up
        )

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        q, k, v, weights, kept = ctx.saved_tensors
        applied = weights if kept is None else apply_keep_mask(weights, kept)
        of_v = scaled_product(applied.mT, gradient, ctx.up)
        of_weights = scaled_product(gradient, v.mT, ctx.up)
        if kept is not None:
            of_weights = apply_keep_mask(of_weights, kept)
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
        of_q, of_k = (
            scaled_product(of_scores, k, ctx.scale),
            scaled_product(of_scores.mT, q, ctx.scale),
        )
        of_bias = None
        if ctx.bias is not None:
            shape, dtype = ctx.bias
            of_bias = of_scores.sum_to_size(shape).to(dtype)
        return of_q, of_k, of_v, of_bias, None, None, None
