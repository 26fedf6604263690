"""Products with a vector for each offset, in blocks of rows, on CPUs.

B batch   S positions, of queries and keys   H heads   O offsets, 2 S - 1   K head width

A block of rows needs the vectors of S + BLOCK - 1 offsets, not of all 2 S - 1, and its taps stay in
the cache. The scores of queries are rows of taps, each one tap further left (Huang et al. 2019,
section 3.4.1); those of keys are columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.nn.ops.offsets.token_order import TokenOrder

BLOCK = 64
"""Rows whose taps are computed together."""


class OffsetProduct(NamedTuple):
    """x_i . y_{j-i}, or x_j . y_{i-j} if `by_key`, for all offsets between positions."""

    x: Float[Tensor, "B H S K"]
    vectors: Float[Tensor, "H O K"]
    """y of 1 - S .. S - 1."""
    by_key: bool
    order: TokenOrder | None = None
    """Position ids, unless positions are 0 .. S-1; then vectors are of 1 - P .. P - 1."""


class Block(NamedTuple):
    """Some rows of x, and the offsets that they need."""

    rows: slice
    offsets: slice

    def view_taps(self, taps: Float[Tensor, "H BN W"], batch: int) -> Float[Tensor, "B H N P"]:
        """out[b, h, r, c] = taps[h, b, r, c - r + N - 1] for the N rows r and P positions c."""
        count, width = self.rows.stop - self.rows.start, taps.shape[-1]
        strides = (count * width, batch * count * width, width - 1, 1)
        shape = batch, len(taps), count, width + 1 - count
        return taps.as_strided(shape, strides, count - 1)


def list_blocks(product: OffsetProduct) -> Iterator[Block]:
    """All rows, as if the tokens were in order."""
    length, offsets = product.x.shape[2], product.vectors.shape[1]
    first = product.order.moved.first_position if product.order else 0
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        low = (offsets + 1) // 2 - first - end
        yield Block(slice(start, end), slice(low, offsets - first - start))


def write_products(out: Float[Tensor, "B H S S"], products: Sequence[OffsetProduct]) -> None:
    """Write the sum of the products; columns first, which take longer to add than rows."""
    for number, product in enumerate(sorted(products, key=lambda product: not product.by_key)):
        write_product(out, product, add=number > 0)


def write_product(out: Tensor, product: OffsetProduct, *, add: bool) -> None:
    """Write the scores of a product to `out`, or add them."""
    x, vectors, by_key, order = product
    columns = vectors.mT.contiguous()  # (H, K, O), whose slices are multiplied faster
    in_order = x if order is None else order.zero_rows(x)
    taps: Tensor | None = None
    for block in list_blocks(product):
        rows, of_block = by_head(in_order, block), columns[:, :, block.offsets]
        shape = *rows.shape[:2], of_block.shape[-1]
        if taps is None or taps.shape != shape:
            taps = x.new_empty(shape)
        torch.bmm(rows, of_block, out=taps)  # (H, BN, K) @ (H, K, W)
        scores = block.view_taps(taps, len(x))
        if order is not None:
            scores = order.order_keys(scores)
        if by_key:
            scores, target = rows_to_columns(scores), out[..., block.rows]
        else:
            target = out[:, :, block.rows]
        if add:
            target += scores
        else:
            target.copy_(scores)
    if order is not None:
        order.add_moved_rows(out.mT if by_key else out, x, columns)


def by_head(x: Float[Tensor, "B H S K"], block: Block) -> Float[Tensor, "H BN K"]:
    """The rows of a block, those of all sentences together."""
    return x.transpose(0, 1)[:, :, block.rows].flatten(1, 2)


def multiply_backward(
    gradient: Float[Tensor, "B H S S"], product: OffsetProduct
) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "H O K"]]:
    """Gradients of x and the vectors; the latter are summed over blocks in fp32, or in fp64."""
    x, vectors, by_key, order = product
    in_order = x if order is None else order.zero_rows(x)
    of_x = torch.empty_like(x)
    precise = torch.promote_types(x.dtype, torch.float32)
    of_columns = vectors.new_zeros(vectors.mT.shape, dtype=precise)  # (H, K, O)
    taps: Tensor | None = None
    for block in list_blocks(product):
        rows = by_head(in_order, block)
        width = block.offsets.stop - block.offsets.start
        if taps is None or taps.shape[1:] != (rows.shape[1], width):
            # Blocks write the same taps and leave the same zeros.
            taps = gradient.new_zeros(len(rows), rows.shape[1], width)
        view = block.view_taps(taps, len(x))
        if by_key:
            of_scores = columns_to_rows(gradient[..., block.rows])
        else:
            of_scores = gradient[:, :, block.rows]
        if order is None:
            view.copy_(of_scores)
        else:
            order.sum_keys(of_scores, view)
        of_rows = taps @ vectors[:, block.offsets]  # (H, BN, W) @ (H, W, K)
        of_x.transpose(0, 1)[:, :, block.rows] = of_rows.unflatten(1, (len(x), -1))
        of_columns[:, :, block.offsets] += rows.mT @ taps
    if order is not None:
        by_row = gradient.mT if by_key else gradient
        of_columns += order.moved_rows_backward(by_row, x, vectors, of_x)
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
