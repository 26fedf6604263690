"""Tiles of scores in Triton: a block of own rows against a block of other rows of one sentence.

Own rows are queries in the forward pass and for the gradients of queries, and keys for those of
keys. Both see a tap as the part of a score that depends on the offset of the other row from the own
one: `own_taps` are products of own rows with their table, `other_taps` those of the other rows.
What a call does not use is None, and compiles to nothing.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check  # Triton compiles the source, so the functions must not be wrapped
def locate(starts, lengths, blocks, H: tl.constexpr):
    """Block, head, and first row and length of the sentence of a program."""
    pair = tl.program_id(0) // blocks
    sentence = pair // H
    start = tl.load(starts + sentence).to(tl.int64)
    return tl.program_id(0) % blocks, pair % H, start, tl.load(lengths + sentence)


@triton.jit
@no_type_check
def load_rows(x, rows, length, stride, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """A block of rows, with zeros after the sentence and after the width."""
    columns = tl.arange(0, PADDED)[None, :]
    mask = (rows < length)[:, None]
    if PADDED > WIDTH:
        mask = mask & (columns < WIDTH)
    return tl.load(x + rows[:, None] * stride + columns, mask=mask, other=0.0)


@triton.jit
@no_type_check
def store_rows(x, block, rows, length, stride, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Store a block of rows of one sentence, in the type of the destination."""
    columns = tl.arange(0, PADDED)[None, :]
    mask = (rows < length)[:, None]
    if PADDED > WIDTH:
        mask = mask & (columns < WIDTH)
    tl.store(x + rows[:, None] * stride + columns, block.to(x.dtype.element_ty), mask=mask)


@triton.jit
@no_type_check
def load_positions(positions, start, rows, length):
    """Position ids; indices in the sentence if there are none."""
    if positions is not None:
        rows = tl.load(positions + start + rows, mask=rows < length, other=0).to(tl.int32)
    return rows


@triton.jit
@no_type_check
def load_table(table, head, WIDTH: tl.constexpr, PADDED: tl.constexpr, R: tl.constexpr,
               RP: tl.constexpr, SHARED: tl.constexpr, DTYPE: tl.constexpr):  # fmt: skip
    """(K, R) of a head, or of all heads, with zeros up to powers of two."""
    loaded = None
    if table is not None:
        rows, taps = tl.arange(0, PADDED)[:, None], tl.arange(0, RP)[None, :]
        if not SHARED:
            table += head * (WIDTH * R)
        inside = (rows < WIDTH) & (taps < R)
        loaded = tl.load(table + rows * R + taps, mask=inside, other=0.0).to(DTYPE)
    return loaded


@triton.jit
@no_type_check
def row_taps(x, table, bias, head, R: tl.constexpr, RP: tl.constexpr, PRECISION: tl.constexpr):
    """x table + bias: (rows, RP)."""
    taps = None
    if table is not None:
        taps = tl.dot(x, table, input_precision=PRECISION)
        if bias is not None:
            columns = tl.arange(0, RP)
            row = tl.load(bias + head * R + columns, mask=columns < R, other=0.0)
            taps += row.to(tl.float32)[None, :]
    return taps


@triton.jit
@no_type_check
def clip_offsets(own, other, R: tl.constexpr):
    """The tap of each pair: the clipped offset of the other position, from 0 to R - 1."""
    offset = other[None, :] - own[:, None]
    return tl.minimum(tl.maximum(offset, -(R // 2)), R // 2) + R // 2


@triton.jit
@no_type_check
def score_tile(own, other, own_taps, other_taps, tap, scale, R: tl.constexpr,
               PRECISION: tl.constexpr):  # fmt: skip
    """scale own . other, and the taps of both at their offsets: (own, others)."""
    scores = tl.dot(own, tl.trans(other), input_precision=PRECISION) * scale
    if own_taps is not None:
        scores += tl.gather(own_taps, tap, 1)
    if other_taps is not None:
        scores += tl.gather(tl.trans(other_taps), R - 1 - tap, 0)
    return scores


@triton.jit
@no_type_check
def add_bias(scores, bias, head, query, tap, R: tl.constexpr):
    """Scores with the bias of each tap, which taps of queries have already."""
    if bias is not None and query is None:
        scores += tl.load(bias + head * R + tap).to(tl.float32)
    return scores


@triton.jit
@no_type_check
def is_seen(queries, keys, length, CAUSAL: tl.constexpr):
    """Whether queries attend to keys of a sentence."""
    seen = keys < length
    if CAUSAL:
        seen = seen & (keys <= queries)
    return seen


@triton.jit
@no_type_check
def sum_by_offset(scores, tap, own_rows, first, positions, R: tl.constexpr, RP: tl.constexpr,
                  OTHERS: tl.constexpr):  # fmt: skip
    """The sum of the scores that read each tap: (own, others) -> (own, RP).

    Without position ids a row has one other row at every offset inside of the radius, and only
    the two outermost taps are sums.
    """
    columns = tl.arange(0, RP)[None, :]
    if positions is None:
        near = own_rows[:, None] + columns - R // 2 - first
        inside = (near >= 0) & (near < OTHERS) & (columns > 0) & (columns < R - 1)
        near = tl.minimum(tl.maximum(near, 0), OTHERS - 1)
        total = tl.where(inside, tl.gather(scores, near, 1), 0.0)
        for outermost in tl.static_range(0, R, max(R - 1, 1)):
            found = tl.sum(tl.where(tap == outermost, scores, 0.0), 1)
            total = tl.where(columns == outermost, found[:, None], total)
    else:
        total = tl.zeros((own_rows.shape[0], RP), tl.float32)
        for each in range(R):
            found = tl.sum(tl.where(tap == each, scores, 0.0), 1)
            total = tl.where(columns == each, found[:, None], total)
    return total
