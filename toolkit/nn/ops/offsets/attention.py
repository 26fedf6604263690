"""Attention with products by offset and values by offset, for CPUs.

B batch   S positions, of queries and keys   H heads   O offsets, 2 S - 1   K head width

A block of rows needs the vectors of S + BLOCK - 1 offsets, and its taps stay in the cache. The
scores of queries are rows of taps, each one tap further left (Huang et al. 2019, section 3.4.1);
those of keys are columns. Products by offset are written first, then the content is added. The
plain form is `SoftmaxMap.forward`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from toolkit.nn.ops.dispatch import apply_eagerly
from toolkit.nn.ops.dropout import apply_keep_mask, draw_keep_mask, round_rate
from toolkit.nn.ops.offsets.taps import LinearMap

BLOCK = 64
"""Rows whose taps are computed together."""


class OffsetProduct(NamedTuple):
    """x_i . y_{j-i}, or x_j . y_{i-j} if `by_key`, for all offsets between positions."""

    x: Float[Tensor, "B H S K"]
    vectors: Float[Tensor, "H O K"]
    """y of 1 - S .. S - 1."""
    by_key: bool


def list_blocks(length: int) -> Iterator[tuple[slice, slice]]:
    """Some rows of x each, and the offsets that they need."""
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        yield slice(start, end), slice(length - end, 2 * length - 1 - start)


def view_taps(taps: Float[Tensor, "H BN W"], batch: int) -> Float[Tensor, "B H N S"]:
    """out[b, h, r, c] = taps[h, b, r, c - r + N - 1] for the N rows r of a block and all c."""
    count, width = taps.shape[1] // batch, taps.shape[2]
    strides = (count * width, batch * count * width, width - 1, 1)
    return taps.as_strided((batch, len(taps), count, width + 1 - count), strides, count - 1)


def write_products(out: Float[Tensor, "B H S S"], products: Sequence[OffsetProduct]) -> None:
    """Write the sum of the products; columns first, which take longer to add than rows."""
    for number, product in enumerate(sorted(products, key=lambda product: not product.by_key)):
        write_product(out, product, add=number > 0)


def write_product(out: Tensor, product: OffsetProduct, *, add: bool) -> None:
    """Write the scores of a product to `out`, or add them."""
    x, vectors, by_key = product
    columns = vectors.mT.contiguous()  # (H, K, O), whose slices are multiplied faster
    for rows, offsets in list_blocks(x.shape[2]):
        taps = take_rows(x, rows) @ columns[:, :, offsets]  # (H, BN, K) @ (H, K, W)
        scores = view_taps(taps, len(x))
        target = out[..., rows] if by_key else out[:, :, rows]
        if by_key:
            scores = rows_to_columns(scores)
        if add:
            target += scores
        else:
            target.copy_(scores)


def take_rows(x: Float[Tensor, "B H S K"], rows: slice) -> Float[Tensor, "H BN K"]:
    """The rows of a block, those of all sentences together."""
    return x.transpose(0, 1)[:, :, rows].flatten(1, 2)


def multiply_backward(
    gradient: Float[Tensor, "B H S S"], product: OffsetProduct
) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
    """Gradients of x and the vectors; the latter are summed over blocks in fp32, or in fp64."""
    x, vectors, by_key = product
    of_x = torch.empty_like(x)
    precise = torch.promote_types(x.dtype, torch.float32)
    of_columns = vectors.new_zeros(vectors.mT.shape, dtype=precise)  # (H, K, O)
    taps: Tensor | None = None
    for rows, offsets in list_blocks(x.shape[2]):
        of_block = take_rows(x, rows)
        width = offsets.stop - offsets.start
        if taps is None or taps.shape[1:] != (of_block.shape[1], width):
            # Blocks write the same taps and leave the same zeros.
            taps = gradient.new_zeros(len(of_block), of_block.shape[1], width)
        of_scores = columns_to_rows(gradient[..., rows]) if by_key else gradient[:, :, rows]
        view_taps(taps, len(x)).copy_(of_scores)
        of_rows = taps @ vectors[:, offsets]  # (H, BN, W) @ (H, W, K)
        of_x.transpose(0, 1)[:, :, rows] = of_rows.unflatten(1, (len(x), -1))
        of_columns[:, :, offsets] += of_block.mT @ taps
    return of_x, of_columns.mT.to(vectors.dtype)


def rows_to_columns(rows: Float[Tensor, "B H N S"]) -> Float[Tensor, "B H S N"]:
    """The transposed blocks; torch copies one transposed matrix faster than a batch of them."""
    matrix = rows.flatten(0, 2)  # (BHN, S)
    columns = matrix.new_empty(matrix.shape[::-1]).copy_(matrix.T)
    return columns.unflatten(1, rows.shape[:3]).permute(1, 2, 0, 3)


def columns_to_rows(columns: Float[Tensor, "B H S N"]) -> Float[Tensor, "B H N S"]:
    """The inverse of `rows_to_columns`."""
    matrix = columns.permute(2, 0, 1, 3).flatten(1)  # (S, BHN)
    rows = matrix.new_empty(matrix.shape[::-1]).copy_(matrix.T)
    return rows.unflatten(0, (*columns.shape[:2], -1))


def attend_by_offset(
    q: Float[Tensor, "B H S K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T K"],
    bias: Float[Tensor, "#B #H S T"] | None,
    padding: Bool[Tensor, "B T"] | None,
    products: Sequence[OffsetProduct],
    values: tuple[Float[Tensor, "K R"], tuple[LinearMap, LinearMap]] | None,
    *,
    scale: float,
    dropout: float,
) -> Float[Tensor, "B H S K"]:
    """dropout(softmax(scale q k^T + products + bias)) (v + values).

    `values` are vectors a_r of taps, and the functions that read taps and sum scores by them:
    sum_j w_ij (v_j + a_{tap(i, j)}).
    """
    vectors, maps = values or (None, None)
    options = scale, dropout, maps, [product.by_key for product in products]
    operands = (tensor for product in products for tensor in product[:2])
    return apply_eagerly(_OffsetAttention, options, q, k, v, bias, padding, vectors, *operands)


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
        scale, dropout, maps, by_key = options
        scores = sum_scores_of(q, k, list_products(operands, by_key), bias, scale)
        weights = softmax(mask_padding_keys(scores, padding))
        keep = draw_keep_mask(weights.shape, dropout) if dropout else None
        dropped = weights if keep is None else apply_keep_mask(weights, keep)
        ctx.dropout_scale = 1 / (1 - round_rate(dropout))
        context, sums = scaled_product(dropped, v, ctx.dropout_scale), None
        if vectors is not None:
            vectors = vectors.to(v.dtype)
            sums = maps[1](dropped)
            context.add_(sums @ vectors.mT, alpha=ctx.dropout_scale)
        ctx.options = options
        ctx.bias = (bias.shape, bias.dtype) if ctx.needs_input_grad[4] else None
        ctx.save_for_backward(q, k, v, weights, keep, vectors, sums, *operands)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        q, k, v, weights, keep, vectors, sums, *operands = ctx.saved_tensors
        (scale, _, maps, by_key), dropout_scale = ctx.options, ctx.dropout_scale
        grad_vectors = of_dropped = grad_bias = None
        if vectors is not None:
            grad_vectors = dropout_scale * (gradient.flatten(0, 2).mT @ sums.flatten(0, 2))
            of_dropped = maps[0](dropout_scale * (gradient @ vectors))
        grad_q, grad_k, grad_v, grad_scores = attention_backward(
            gradient, q, k, v, weights, keep, scale, dropout_scale, of_dropped
        )
        if ctx.bias is not None:
            grad_bias = sum_to_bias(grad_scores, *ctx.bias)
        grad_operands: list[Tensor] = []
        for product in list_products(operands, by_key):
            grad_operands += multiply_backward(grad_scores, product)
        return None, grad_q, grad_k, grad_v, grad_bias, None, grad_vectors, *grad_operands


def list_products(operands: Sequence[Tensor], by_key: Sequence[bool]) -> list[OffsetProduct]:
    """The products of x, vectors, x, vectors, ..."""
    return [OffsetProduct(*it) for it in zip(operands[::2], operands[1::2], by_key, strict=True)]
