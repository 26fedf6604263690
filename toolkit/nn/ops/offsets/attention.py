"""Attention with products by offset and values by offset, for CPUs.

The scores are written once: the products by offset first, then the content is added by its product.
The weights are kept once; the plain form is `SoftmaxMap.forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.nn.ops.attention import (
    add_product,
    attention_backward,
    mask_padding_keys,
    scaled_product,
    scaled_scores,
    softmax,
    sum_to_bias,
)
from toolkit.nn.ops.dispatch import compile_disabled
from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate
from toolkit.nn.ops.offsets.products import OffsetProduct, multiply_backward, write_products
from toolkit.nn.ops.offsets.taps import TapTable
from toolkit.nn.ops.offsets.token_order import TokenOrder


class Options(NamedTuple):
    """What is no tensor."""

    scale: float
    dropout: float
    table: TapTable | None
    by_key: list[bool]
    """Of each product."""
    orders: list[TokenOrder | None]


@compile_disabled  # views as other integers fail there
def attend_by_offset(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H S T"] | None,
    padding: Bool[Tensor, "B T"] | None,
    products: Sequence[OffsetProduct],
    values: tuple[Float[Tensor, "K R"], TapTable] | None,
    *,
    scale: float,
    dropout: float,
) -> Float[Tensor, "B H S K"]:
    """dropout(softmax(scale q k^T + products + bias)) (v + values).

    `values` are vectors a_r of taps, and the tap of each pair: sum_j w_ij (v_j + a_{tap(i, j)}).
    """
    vectors, table = values or (None, None)
    options = Options(
        scale, dropout, table, [p.by_key for p in products], [p.order for p in products]
    )
    operands = (tensor for p in products for tensor in p[:2])
    context: Tensor = _OffsetAttention.apply(options, q, k, v, bias, padding, vectors, *operands)
    return context


def sum_scores_of(
    q: Tensor, k: Tensor, products: Sequence[OffsetProduct], bias: Tensor | None, scale: float
) -> Float[Tensor, "B H S T"]:
    """scale q k^T + products + bias."""
    if not products:
        return scaled_scores(q, k, bias, scale)
    scores = q.new_empty(*q.shape[:3], k.shape[2])
    write_products(scores, products)
    if bias is not None:
        scores += bias
    return add_product(scores, q, k, scale)


class _OffsetAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, options, q, k, v, bias, padding, vectors, *operands):  # type: ignore[no-untyped-def]
        products = list_products(options, operands)
        scores = sum_scores_of(q, k, products, bias, options.scale)
        weights = softmax(mask_padding_keys(scores, padding))
        keep = draw_keep_mask(weights.shape, options.dropout) if options.dropout else None
        dropped = weights if keep is None else apply_keep_mask(weights, keep)
        ctx.dropout_scale = 1 / (1 - round_rate(options.dropout))
        context, sums = scaled_product(dropped, v, ctx.dropout_scale), None
        if vectors is not None:
            vectors = vectors.to(v.dtype)
            sums = options.table.sum(dropped)
            context.add_(sums @ vectors.mT, alpha=ctx.dropout_scale)
        ctx.options = options
        ctx.bias = (bias.shape, bias.dtype) if ctx.needs_input_grad[4] else None
        ctx.save_for_backward(q, k, v, weights, keep, vectors, sums, *operands)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        q, k, v, weights, keep, vectors, sums, *operands = ctx.saved_tensors
        options, dropout_scale = ctx.options, ctx.dropout_scale
        grad_vectors = of_dropped = grad_bias = None
        if vectors is not None:
            grad_vectors = dropout_scale * (gradient.flatten(0, 2).mT @ sums.flatten(0, 2))
            of_dropped = options.table.read(dropout_scale * (gradient @ vectors))
        grad_q, grad_k, grad_v, grad_scores = attention_backward(
            gradient, q, k, v, weights, keep, options.scale, dropout_scale, of_dropped
        )
        if ctx.bias is not None:
            grad_bias = sum_to_bias(grad_scores, *ctx.bias)
        grad_operands: list[Tensor] = []
        for product in list_products(options, operands):
            grad_operands += multiply_backward(grad_scores, product)
        return None, grad_q, grad_k, grad_v, grad_bias, None, grad_vectors, *grad_operands


def list_products(options: Options, operands: Sequence[Tensor]) -> list[OffsetProduct]:
    """The products of x, vectors, x, vectors, ..."""
    pairs = zip(operands[::2], operands[1::2], options.by_key, options.orders, strict=True)
    return [OffsetProduct(*product) for product in pairs]
