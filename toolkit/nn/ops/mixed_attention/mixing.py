"""PReLU of a 1x1 convolution over attention maps with any strides: Triton kernels.

A program mixes a tile of some queries and keys of a sentence. The backward pass mixes it again.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check  # Triton compiles the source, so the functions must not be wrapped
def offset_of(strides, sentence, head, i, j):
    """Where a map has head, query i and key j of a sentence."""
    return head.to(tl.int64) * strides[0] + sentence * strides[1] + i * strides[2] + j * strides[3]


@triton.jit
@no_type_check
def find_tile(length, SIZE: tl.constexpr):
    """A program's sentence, first query and first key, and the length of sentences."""
    sentence = tl.program_id(2).to(tl.int64)
    return sentence, tl.program_id(1) * SIZE[0], tl.program_id(0) * SIZE[1], length


@triton.jit
@no_type_check
def load_group(
    group, strides, tile, HEADS: tl.constexpr, WIDTH: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    """A tile of all maps of a group, WIDTH x queries keys; zeros outside."""
    head = tl.arange(0, WIDTH)[:, None, None]
    i = tile[1] + tl.arange(0, SIZE[0])[None, :, None]
    j = tile[2] + tl.arange(0, SIZE[1])[None, None, :]
    inside = (head < HEADS) & (i < tile[3]) & (j < tile[3])
    x = tl.load(group + offset_of(strides, tile[0], head, i, j), mask=inside, other=0.0)
    return tl.reshape(x, (WIDTH, SIZE[0] * SIZE[1]))


@triton.jit
@no_type_check
def store_group(
    values, group, strides, tile,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, TAPS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Store a tile of all maps of a group, and zeros in the rest of taps (1: queries', 2: keys').

    A row of 2 T taps has T that are read for some key, and T that are not: their neighbors at a
    distance of T, to the right of those left of the diagonal, and to the left of the others.
    """
    head = tl.arange(0, WIDTH)[:, None, None]
    i = tile[1] + tl.arange(0, SIZE[0])[None, :, None]
    j = tile[2] + tl.arange(0, SIZE[1])[None, None, :]
    inside = (head < HEADS) & (i < tile[3]) & (j < tile[3])
    place = offset_of(strides, tile[0], head, i, j)
    values = tl.reshape(values, (WIDTH, SIZE[0], SIZE[1])).to(group.dtype.element_ty)
    tl.store(group + place, values, mask=inside)
    if TAPS:
        backward = (j > i) if TAPS == 1 else (i > j)
        other = place + tl.where(backward, -tile[3], tile[3])
        tl.store(group + other, tl.zeros_like(values), mask=inside)


@triton.jit
@no_type_check
def load_weight(weight, first, channels, HEADS, WIDTH: tl.constexpr, OUT, OUT_WIDTH: tl.constexpr):
    """The columns of one group of maps, OUT_WIDTH x WIDTH."""
    row, column = tl.arange(0, OUT_WIDTH)[:, None], tl.arange(0, WIDTH)[None, :]
    inside = (row < OUT) & (column < HEADS)
    return tl.load(weight + row * channels + first + column, mask=inside, other=0.0)


@triton.jit
@no_type_check
def load_vector(vector, OUT, OUT_WIDTH: tl.constexpr):
    """A vector with a number per output head, as a column in fp32."""
    row = tl.arange(0, OUT_WIDTH)
    return tl.load(vector + row, mask=row < OUT, other=0.0).to(tl.float32)[:, None]


@triton.jit
@no_type_check
def mix_tile(
    maps, strides, weight, bias, channels, tile,
    HEADS: tl.constexpr, WIDTHS: tl.constexpr, FIRST: tl.constexpr, OUT: tl.constexpr,
    OUT_WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """W x + b of a tile, OUT_WIDTH x queries keys."""
    total = tl.zeros((OUT_WIDTH, SIZE[0] * SIZE[1]), dtype=tl.float32)
    for g in tl.static_range(len(HEADS)):
        x = load_group(maps[g], strides[g], tile, HEADS[g], WIDTHS[g], SIZE)
        w = load_weight(weight, FIRST[g], channels, HEADS[g], WIDTHS[g], OUT, OUT_WIDTH)
        total = tl.dot(w, x, acc=total, input_precision="ieee")
    return total + load_vector(bias, OUT, OUT_WIDTH)


@triton.jit
@no_type_check
def mix(
    maps, strides, weight, bias, slope, out, out_strides, channels, length,
    HEADS: tl.constexpr, WIDTHS: tl.constexpr, FIRST: tl.constexpr, OUT: tl.constexpr,
    OUT_WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """PReLU(W maps + b) of a tile of queries and keys."""
    tile = find_tile(length, SIZE)
    mixed = mix_tile(
        maps, strides, weight, bias, channels, tile, HEADS, WIDTHS, FIRST, OUT, OUT_WIDTH, SIZE
    )
    scores = tl.where(mixed > 0, mixed, mixed * load_vector(slope, OUT, OUT_WIDTH))
    store_group(scores, out, out_strides, tile, OUT, OUT_WIDTH, 0, SIZE)


@triton.jit
@no_type_check
def outer(g, x, PARTS: tl.constexpr):
    """g x^T, a part of the tile for each warp: the whole would not fit into its registers."""
    rows: tl.constexpr = g.shape[0]
    columns: tl.constexpr = x.shape[0]
    size: tl.constexpr = g.shape[1] // PARTS
    of_rows = tl.permute(tl.reshape(g, (rows, PARTS, size)), (1, 0, 2))
    of_columns = tl.permute(tl.reshape(x, (columns, PARTS, size)), (1, 2, 0))
    return tl.sum(tl.dot(of_rows, of_columns, input_precision="ieee"), 0)


@triton.jit
@no_type_check
def mix_backward(
    maps, strides, weight, bias, slope, gradient, gradient_strides, grads, grad_strides, sums,
    channels, length,
    HEADS: tl.constexpr, WIDTHS: tl.constexpr, FIRST: tl.constexpr, TAPS: tl.constexpr,
    PARTS: tl.constexpr, OUT: tl.constexpr, OUT_WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Gradients of the maps of a tile, and the tile's summands of those of W, b and the slope."""
    tile = find_tile(length, SIZE)
    mixed = mix_tile(
        maps, strides, weight, bias, channels, tile, HEADS, WIDTHS, FIRST, OUT, OUT_WIDTH, SIZE
    )
    out_gradient = load_group(gradient, gradient_strides, tile, OUT, OUT_WIDTH, SIZE).to(tl.float32)
    a = load_vector(slope, OUT, OUT_WIDTH)
    g = tl.where(mixed > 0, out_gradient, out_gradient * a)
    program = (tile[0] * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0)
    sums += (program + tl.program_id(0)) * OUT * (channels + 2)
    row = tl.arange(0, OUT_WIDTH)
    own = sums + row * (channels + 2)
    tl.store(own + channels, tl.sum(g, 1), mask=row < OUT)
    slope_sums = tl.sum(out_gradient * tl.minimum(mixed, 0.0), 1)
    tl.store(own + channels + 1, slope_sums, mask=row < OUT)
    g = g.to(gradient.dtype.element_ty)
    for k in tl.static_range(len(HEADS)):
        w = load_weight(weight, FIRST[k], channels, HEADS[k], WIDTHS[k], OUT, OUT_WIDTH)
        to_maps = tl.dot(tl.trans(w), g, input_precision="ieee")
        store_group(to_maps, grads[k], grad_strides[k], tile, HEADS[k], WIDTHS[k], TAPS[k], SIZE)
        x = load_group(maps[k], strides[k], tile, HEADS[k], WIDTHS[k], SIZE)
        to_weight = outer(g, x, PARTS)
        column = tl.arange(0, WIDTHS[k])[None, :]
        inside = (row < OUT)[:, None] & (column < HEADS[k])
        tl.store(own[:, None] + FIRST[k] + column, to_weight, mask=inside)
