"""Attention with learned taps as Triton kernels for GPUs.

N rows   B sentences   H heads   K head width   R offsets, 2 * radius + 1

A program computes one block of rows of one head and sentence, and goes through the other rows of
the sentence in blocks, with sums in fp32 and a running softmax (Dao et al. 2022). Taps are computed
inside from the rows and the tables. Each result is summed by one program in a fixed order, without
atomics. `__init__.py` has the equation.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl

from toolkit.nn.ops.relative_attention.tiles import (
    add_bias,
    clip_offsets,
    is_seen,
    load_positions,
    load_rows,
    load_table,
    locate,
    row_taps,
    score_tile,
    store_rows,
)
from toolkit.nn.ops.triton_operations.dropout import draw_row_bits, drop, keep_weights


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
