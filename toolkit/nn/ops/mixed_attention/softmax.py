"""Softmax of attention scores and dropout in one pass over rows of keys: Triton kernels.

The backward pass computes the weights again from the scores.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from toolkit.nn.ops.attention import MASKED_SCORE
from toolkit.nn.ops.triton_operations.dropout import draw_row_bits, drop, keep_weights

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
