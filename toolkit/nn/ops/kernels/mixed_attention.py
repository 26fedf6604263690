"""Triton kernels of mixed attention maps: PReLU of a 1x1 convolution, then softmax and dropout.

A program mixes a tile of some queries and keys of a sentence; softmax and dropout take one pass
over rows of keys. The backward pass mixes the maps again, and computes the weights again from the
scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from toolkit.nn.ops.attention import MASKED_SCORE
from toolkit.nn.ops.kernel_inputs import count_tiles, mixing_tile
from toolkit.nn.ops.kernels.dropout import draw_row_bits, drop, dropout_numbers, keep_weights


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


MASKED = tl.constexpr(MASKED_SCORE)


@triton.jit
@no_type_check
def softmax(scores, padding, sentences, length, rows_each, row, column):
    """Softmax of some rows, with padding masked; zeros beyond the ends."""
    inside = (column < length) & (row < rows_each)
    x = tl.load(scores + row * length + column, mask=inside, other=0.0).to(tl.float32)
    if padding is not None:
        sentence = (row // length) % sentences
        pad = tl.load(padding + sentence * length + column, mask=inside, other=0)
        x += pad.to(tl.float32) * MASKED
    x = tl.where(column < length, x, float("-inf"))
    p = tl.exp(x - tl.max(x, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
@no_type_check
def drop_weights(x, seed, threshold, scale, row, column):
    """x * scale where it is kept, else 0: the same places whenever it is called."""
    bits = draw_row_bits(seed, row, 0)
    return drop(x, keep_weights(bits, column, threshold, 0), scale)


@triton.jit
@no_type_check
def normalize(
    scores, padding, seed, out, threshold, scale, sentences, length, rows_each,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """dropout(softmax(scores)) of some rows."""
    first = tl.program_id(0).to(tl.int64) * ROWS
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row, column = rows[:, None], columns[None, :]
    p = softmax(scores, padding, sentences, length, rows_each, row, column)
    p = drop_weights(p, seed, threshold, scale, rows, columns)
    inside = (column < length) & (row < rows_each)
    tl.store(out + row * length + column, p.to(out.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def normalize_backward(
    scores, padding, seed, of_words, of_positions, of_scores, out, threshold, scale,
    word_rows, sentences, length, rows_each, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """p (g - sum p g) + the gradient that the scores received otherwise, of some rows."""
    first = tl.program_id(0).to(tl.int64) * ROWS
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    row, column = rows[:, None], columns[None, :]
    inside = (column < length) & (row < rows_each)
    place = row * length + column
    p = softmax(scores, padding, sentences, length, rows_each, row, column)
    words = inside & (row < word_rows)
    g = tl.load(of_words + place, mask=words, other=0.0).to(tl.float32)
    positions = inside & (row >= word_rows)
    place_there = place - word_rows * length
    g += tl.load(of_positions + place_there, mask=positions, other=0.0).to(tl.float32)
    g = drop_weights(g, seed, threshold, scale, rows, columns)
    g = p * (g - tl.sum(p * g, 1)[:, None])
    if of_scores is not None:
        g += tl.load(of_scores + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + place, g.to(out.dtype.element_ty), mask=inside)


MIN_WIDTH = 16
"""Minimum of every axis of a product."""
WARPS = 8
ROW_NUMBERS = 2048
"""Scores per program of the softmax."""


def width_of(heads: int) -> int:
    """Number of heads padded to a power of two that Triton can multiply."""
    return max(MIN_WIDTH, triton.next_power_of_2(heads))


def group_constants(maps: Sequence[Float[Tensor, "B _ S T"]], out: int) -> dict[str, Any]:
    """Compile-time constants of a launch over several groups of maps."""
    heads = tuple(m.shape[1] for m in maps)
    first = tuple(sum(heads[:k]) for k in range(len(heads)))
    widths = tuple(map(width_of, heads))
    sizes = {"OUT": out, "OUT_WIDTH": width_of(out), "SIZE": mixing_tile(maps[0])}
    return {"HEADS": heads, "WIDTHS": widths, "FIRST": first, **sizes, "num_warps": WARPS}


def strides_of(maps: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    """Of heads, sentences, queries and keys."""
    return tuple((m.stride(1), m.stride(0), m.stride(2), m.stride(3)) for m in maps)


def launch_mix(
    maps: Sequence[Float[Tensor, "B _ S T"]],
    weight: Float[Tensor, "H C"],
    bias: Float[Tensor, " H"],
    slope: Float[Tensor, " H"],
    out: Float[Tensor, "B H S T"],
) -> None:
    """Launch the forward kernel, with a program per tile of a sentence's maps."""
    length, (rows, columns) = out.shape[-1], count_tiles(out)
    mix[columns, rows, len(out)](
        tuple(maps), strides_of(maps), weight, bias, slope, out, *strides_of([out]),
        weight.shape[1], length, **group_constants(maps, out.shape[1]),
    )  # fmt: skip


def launch_mix_backward(
    maps: Sequence[Float[Tensor, "B _ S T"]],
    weight: Float[Tensor, "H C"],
    bias: Float[Tensor, " H"],
    slope: Float[Tensor, " H"],
    gradient: Float[Tensor, "B H S T"],
    grads: Sequence[Float[Tensor, "B _ S T"]],
    sums: Float[Tensor, "N H _"],
    taps: Sequence[int],
) -> None:
    """Write the gradients of the maps, and the summands of the others side by side."""
    heads, length = gradient.shape[1:3]
    rows, columns = count_tiles(gradient)
    mix_backward[columns, rows, len(gradient)](
        tuple(maps), strides_of(maps), weight, bias, slope, gradient, *strides_of([gradient]),
        tuple(grads), strides_of(grads), sums, weight.shape[1], length,
        TAPS=tuple(taps), PARTS=WARPS, **group_constants(maps, heads),
    )  # fmt: skip


def softmax_blocks(length: int) -> dict[str, int]:
    """Rows and columns of a softmax program's block."""
    columns = max(MIN_WIDTH, triton.next_power_of_2(length))
    return {"ROWS": max(1, ROW_NUMBERS // columns), "COLUMNS": columns}


def launch_normalize(
    scores: Float[Tensor, "H B S T"], padding: Tensor | None, seed: Tensor | None, rate: float
) -> Float[Tensor, "H B S T"]:
    """Softmax with dropout of each row of the scores, as a new tensor."""
    out, length = torch.empty_like(scores), scores.shape[-1]
    rows, blocks = scores.numel() // length, softmax_blocks(length)
    normalize[(triton.cdiv(rows, blocks["ROWS"]),)](
        scores, padding, seed, out, *dropout_numbers(rate), scores.shape[1], length, rows,
        **blocks,
    )  # fmt: skip
    return out


def launch_normalize_backward(
    scores: Float[Tensor, "H B S T"],
    padding: Tensor | None,
    seed: Tensor | None,
    rate: float,
    gradients: Sequence[Tensor | None],
) -> Float[Tensor, "H B S T"]:
    """`gradients` of the weights of words and of positions, and of the scores."""
    out, length, of_words = torch.empty_like(scores), scores.shape[-1], gradients[0]
    assert of_words is not None, "heads of words have a gradient"
    rows, blocks = scores.numel() // length, softmax_blocks(length)
    normalize_backward[(triton.cdiv(rows, blocks["ROWS"]),)](
        scores, padding, seed, *gradients, out, *dropout_numbers(rate),
        of_words.numel() // length, scores.shape[1], length, rows, **blocks,
    )  # fmt: skip
    return out
