"""Forward pass of attention with learned taps as a Triton kernel, and the tiles of all its kernels.

N rows   B sentences   H heads   K head width   R offsets, 2 * radius + 1

A program computes one block of rows of one head and sentence, and goes through the other rows of
the sentence in blocks, with a running softmax (Dao et al. 2022); sums are in fp32 and in a fixed
order. `relative_attention` has the equation.

A tile is a block of own rows, queries or for their gradients keys, against a block of other rows. A
tap is the part of a score that depends on the offset of the other row from the own one: `own_taps`
are products of own rows with their table, `other_taps` those of the other rows. What a call does
not use is None, and compiles to nothing.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from toolkit.nn.ops.kernels.dropout import draw_row_bits, drop, keep_weights


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
    """(K, R) / sqrt(K) of a head, or of all heads, with zeros up to powers of two."""
    loaded = None
    if table is not None:
        rows, taps = tl.arange(0, PADDED)[:, None], tl.arange(0, RP)[None, :]
        if not SHARED:
            table += head * (WIDTH * R)
        inside = (rows < WIDTH) & (taps < R)
        loaded = tl.load(table + rows * R + taps, mask=inside, other=0.0).to(tl.float32)
        loaded = (loaded * WIDTH**-0.5).to(DTYPE)
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


@triton.jit
@no_type_check
def attend_forward(
    qkv, bias, query, key, starts, lengths, positions, seed, out, logsumexp,
    blocks, scale, threshold, keep_scale,
    PARTS: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    R: tl.constexpr, RP: tl.constexpr, QUERY_SHARED: tl.constexpr, KEY_SHARED: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """Contexts of a block of queries, and the logarithms of their sums of exponentials."""
    block, head, start, length = locate(starts, lengths, blocks, H)
    if block * OWN >= length:
        return
    STRIDE: tl.constexpr = PARTS * H * WIDTH
    qkv += start * STRIDE + head * WIDTH
    rows = block * OWN + tl.arange(0, OWN)
    q = load_rows(qkv, rows, length, STRIDE, WIDTH, PADDED)
    ids = load_positions(positions, start, rows, length)
    query_table = load_table(query, head, WIDTH, PADDED, R, RP, QUERY_SHARED, qkv.dtype.element_ty)
    key_table = load_table(key, head, WIDTH, PADDED, R, RP, KEY_SHARED, qkv.dtype.element_ty)
    query_taps = row_taps(q, query_table, bias, head, R, RP, PRECISION)
    bits = draw_row_bits(seed, start + rows, head)
    top = tl.full((OWN,), float("-inf"), tl.float32)
    total = tl.zeros((OWN,), tl.float32)
    context = tl.zeros((OWN, PADDED), tl.float32)
    for first in range(0, tl.minimum(length, block * OWN + OWN) if CAUSAL else length, OTHERS):
        keys = first + tl.arange(0, OTHERS)
        k = load_rows(qkv + H * WIDTH, keys, length, STRIDE, WIDTH, PADDED)
        key_taps = row_taps(k, key_table, None, head, R, RP, PRECISION)
        tap = clip_offsets(ids, load_positions(positions, start, keys, length), R)
        scores = score_tile(q, k, query_taps, key_taps, tap, scale, R, PRECISION)
        scores = add_bias(scores, bias, head, query, tap, R)
        seen = is_seen(rows[:, None], keys[None, :], length, CAUSAL)
        scores = tl.where(seen, scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - new_top[:, None])
        shrink = tl.exp(top - new_top)
        total = total * shrink + tl.sum(weights, 1)
        weights = drop(weights, keep_weights(bits, keys, threshold, 0), 1.0)
        v = load_rows(qkv + 2 * H * WIDTH, keys, length, STRIDE, WIDTH, PADDED)
        context = tl.dot(weights.to(v.dtype), v, context * shrink[:, None], PRECISION)
        top = new_top
    context *= (keep_scale / total)[:, None]
    out += start * (H * WIDTH) + head * WIDTH
    store_rows(out, context, rows, length, H * WIDTH, WIDTH, PADDED)
    logsumexp += start * H + head
    tl.store(logsumexp + rows * H, top + tl.log(total), mask=rows < length)
