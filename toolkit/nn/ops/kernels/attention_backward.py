"""Backward pass of attention with learned taps as Triton kernels for GPUs.

With weights p, their gradients dp and delta_i = out_i . dout_i, the gradients of the scores are
ds_ij = p_ij (dp_ij - delta_i). A program has one block of queries, and sums their gradients and,
for each, ds by the offset of the key; or one block of keys, and sums their gradients, those of
their values and, for each key, ds by the offset of the query.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from toolkit.nn.ops.kernel_inputs import OffsetTables, tile_size
from toolkit.nn.ops.kernels.attention_forward import (
    add_bias,
    attend_forward,
    clip_offsets,
    is_seen,
    load_positions,
    load_rows,
    load_table,
    locate,
    row_taps,
    score_tile,
    store_rows,
    sum_by_offset,
)
from toolkit.nn.ops.kernels.dropout import (
    draw_row_bits,
    drop,
    dropout_numbers,
    keep_weights,
    load_row_bits,
    store_row_bits,
)


@triton.jit
@no_type_check
def differentiate_queries(
    gradient, out, logsumexp, delta, row_bits, qkv, bias, query, key, starts, lengths, positions,
    seed, grad_qkv, grad_taps, blocks, scale, threshold, keep_scale,
    PARTS: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    R: tl.constexpr, RP: tl.constexpr, QUERY_SHARED: tl.constexpr, KEY_SHARED: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of queries and of their taps; delta and bits for the other kernel."""
    block, head, start, length = locate(starts, lengths, blocks, H)
    if block * OWN >= length:
        return
    STRIDE: tl.constexpr = PARTS * H * WIDTH
    qkv += start * STRIDE + head * WIDTH
    rows = block * OWN + tl.arange(0, OWN)
    q = load_rows(qkv, rows, length, STRIDE, WIDTH, PADDED)
    place = start * (H * WIDTH) + head * WIDTH
    g = load_rows(gradient + place, rows, length, H * WIDTH, WIDTH, PADDED)
    context = load_rows(out + place, rows, length, H * WIDTH, WIDTH, PADDED)
    own_delta = tl.sum(context.to(tl.float32) * g.to(tl.float32), 1)
    place = (start + rows) * H + head
    tl.store(delta + place, own_delta, mask=rows < length)
    norm = tl.load(logsumexp + place, mask=rows < length, other=float("inf"))
    ids = load_positions(positions, start, rows, length)
    query_table = load_table(query, head, WIDTH, PADDED, R, RP, QUERY_SHARED, qkv.dtype.element_ty)
    key_table = load_table(key, head, WIDTH, PADDED, R, RP, KEY_SHARED, qkv.dtype.element_ty)
    query_taps = row_taps(q, query_table, bias, head, R, RP, PRECISION)
    bits = draw_row_bits(seed, start + rows, head)
    store_row_bits(row_bits, bits, place, rows < length)
    grad_q = tl.zeros((OWN, PADDED), tl.float32)
    by_offset = tl.zeros((OWN, RP), tl.float32)
    for first in range(0, tl.minimum(length, block * OWN + OWN) if CAUSAL else length, OTHERS):
        keys = first + tl.arange(0, OTHERS)
        k = load_rows(qkv + H * WIDTH, keys, length, STRIDE, WIDTH, PADDED)
        key_taps = row_taps(k, key_table, None, head, R, RP, PRECISION)
        tap = clip_offsets(ids, load_positions(positions, start, keys, length), R)
        scores = score_tile(q, k, query_taps, key_taps, tap, scale, R, PRECISION)
        scores = add_bias(scores, bias, head, query, tap, R)
        seen = is_seen(rows[:, None], keys[None, :], length, CAUSAL)
        weights = tl.where(seen, tl.exp(scores - norm[:, None]), 0.0)
        v = load_rows(qkv + 2 * H * WIDTH, keys, length, STRIDE, WIDTH, PADDED)
        grad_weights = tl.dot(g, tl.trans(v), input_precision=PRECISION)
        grad_weights = drop(grad_weights, keep_weights(bits, keys, threshold, 0), keep_scale)
        grad_scores = weights * (grad_weights - own_delta[:, None])
        grad_q = tl.dot(grad_scores.to(k.dtype), k, grad_q, PRECISION)
        if grad_taps is not None:
            by_offset += sum_by_offset(grad_scores, tap, rows, first, positions, R, RP, OTHERS)
    store_taps(grad_taps, by_offset, rows, start, length, head, H, RP)
    grad_q = add_table_gradient(grad_q * scale, by_offset, query_table, PRECISION)
    grad_qkv += start * STRIDE + head * WIDTH
    store_rows(grad_qkv, grad_q, rows, length, STRIDE, WIDTH, PADDED)


@triton.jit
@no_type_check
def differentiate_keys(
    gradient, logsumexp, delta, qkv, bias, query, key, starts, lengths, positions, row_bits,
    grad_qkv, grad_taps, blocks, scale, threshold, keep_scale,
    PARTS: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    R: tl.constexpr, RP: tl.constexpr, QUERY_SHARED: tl.constexpr, KEY_SHARED: tl.constexpr,
    CAUSAL: tl.constexpr, PRECISION: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """Gradients of a block of keys, of their taps and of their values."""
    block, head, start, length = locate(starts, lengths, blocks, H)
    if block * OWN >= length:
        return
    STRIDE: tl.constexpr = PARTS * H * WIDTH
    qkv += start * STRIDE + head * WIDTH
    rows = block * OWN + tl.arange(0, OWN)
    k = load_rows(qkv + H * WIDTH, rows, length, STRIDE, WIDTH, PADDED)
    v = load_rows(qkv + 2 * H * WIDTH, rows, length, STRIDE, WIDTH, PADDED)
    ids = load_positions(positions, start, rows, length)
    query_table = load_table(query, head, WIDTH, PADDED, R, RP, QUERY_SHARED, qkv.dtype.element_ty)
    key_table = load_table(key, head, WIDTH, PADDED, R, RP, KEY_SHARED, qkv.dtype.element_ty)
    key_taps = row_taps(k, key_table, None, head, R, RP, PRECISION)
    grad_k = tl.zeros((OWN, PADDED), tl.float32)
    grad_v = tl.zeros((OWN, PADDED), tl.float32)
    by_offset = tl.zeros((OWN, RP), tl.float32)
    gradient += start * (H * WIDTH) + head * WIDTH
    for first in range(block * OWN // OTHERS * OTHERS if CAUSAL else 0, length, OTHERS):
        queries = first + tl.arange(0, OTHERS)
        q = load_rows(qkv, queries, length, STRIDE, WIDTH, PADDED)
        query_taps = row_taps(q, query_table, bias, head, R, RP, PRECISION)
        tap = clip_offsets(ids, load_positions(positions, start, queries, length), R)
        scores = score_tile(k, q, key_taps, query_taps, tap, scale, R, PRECISION)
        scores = add_bias(scores, bias, head, query, R - 1 - tap, R)
        place = (start + queries) * H + head
        norm = tl.load(logsumexp + place, mask=queries < length, other=float("inf"))
        seen = is_seen(queries[None, :], rows[:, None], length, CAUSAL)
        weights = tl.where(seen, tl.exp(scores - norm[None, :]), 0.0)
        g = load_rows(gradient, queries, length, H * WIDTH, WIDTH, PADDED)
        grad_weights = tl.dot(v, tl.trans(g), input_precision=PRECISION)
        kept = keep_weights(load_row_bits(row_bits, place, queries < length), rows, threshold, 1)
        grad_v = tl.dot(drop(weights, kept, 1.0).to(g.dtype), g, grad_v, PRECISION)
        grad_weights = drop(grad_weights, kept, keep_scale)
        own_delta = tl.load(delta + place, mask=queries < length, other=0.0)
        grad_scores = weights * (grad_weights - own_delta[None, :])
        grad_k = tl.dot(grad_scores.to(q.dtype), q, grad_k, PRECISION)
        if grad_taps is not None:
            by_offset += sum_by_offset(grad_scores, tap, rows, first, positions, R, RP, OTHERS)
    store_taps(grad_taps, by_offset, rows, start, length, head, H, RP)
    grad_k = add_table_gradient(grad_k * scale, by_offset, key_table, PRECISION)
    grad_qkv += start * STRIDE + (H + head) * WIDTH
    store_rows(grad_qkv, grad_k, rows, length, STRIDE, WIDTH, PADDED)
    store_rows(grad_qkv + H * WIDTH, grad_v * keep_scale, rows, length, STRIDE, WIDTH, PADDED)


@triton.jit
@no_type_check
def add_table_gradient(gradient, by_offset, table, PRECISION: tl.constexpr):
    """Rows' gradients through their taps: gradient + by_offset table'."""
    if table is not None:
        gradient = tl.dot(by_offset.to(table.dtype), tl.trans(table), gradient, PRECISION)
    return gradient


@triton.jit
@no_type_check
def store_taps(grad_taps, by_offset, rows, start, length, head, H: tl.constexpr, RP: tl.constexpr):
    """Store the gradients of the taps of some rows, if they are needed."""
    if grad_taps is not None:
        grad_taps += (start * H + head) * RP
        store_rows(grad_taps, by_offset, rows, length, H * RP, RP, RP)


Arguments = tuple[Any, ...]
"""Of the registered operation."""


def choose_blocks(
    kernel: Any, padded_width: int, element_size: int, *, has_key_table: bool
) -> dict[str, int]:
    """Rows of a program, other rows that it reads at a time, its warps, and blocks in flight; as
    large as the registers of sm_90 allow.
    """
    own = 32 if element_size == 4 else 64
    if kernel is differentiate_keys:
        warps = 8 if has_key_table else 4
        return {"OWN": own, "OTHERS": 32, "num_warps": warps, "num_stages": 2}
    wide = own == 64 and kernel is attend_forward and padded_width <= 64
    return {"OWN": own, "OTHERS": 64 if wide else 32, "num_warps": 4, "num_stages": 3}


def constants(qkv: Tensor, tables: OffsetTables, *, causal: bool) -> dict[str, Any]:
    """Arguments that are compiled into a kernel."""
    _, parts, heads, width = qkv.shape
    precision = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"
    shared = [table is not None and len(table) == 1 for table in tables[1:]]
    return {
        **{"PARTS": parts, "H": heads, "WIDTH": width, "PADDED": tile_size(width)},
        **{"R": tables.offsets, "RP": tile_size(tables.offsets), "PRECISION": precision},
        **{"QUERY_SHARED": shared[0], "KEY_SHARED": shared[1], "CAUSAL": causal},
    }


def launch(kernel: Any, others: Arguments, arguments: Arguments, results: Arguments) -> None:
    """Launch a kernel with a program per block of rows, sentence and head."""
    qkv, bias, query, key, starts, *_, max_length, scale, dropout, causal, _ = arguments
    sizes = tile_size(qkv.shape[3]), qkv.element_size()
    blocks = choose_blocks(kernel, *sizes, has_key_table=key is not None)
    count = triton.cdiv(max_length, blocks["OWN"])
    if not count * len(starts):
        return
    kernel[(count * len(starts) * qkv.shape[2],)](
        *(*others, *arguments[:8], *results),
        *(count, scale, *dropout_numbers(dropout)),
        **constants(qkv, OffsetTables(bias, query, key), causal=causal),
        **blocks,
    )


def launch_forward(results: tuple[Tensor, Tensor], arguments: Arguments) -> None:
    """Launch the forward kernel; rows that belong to no sentence become 0."""
    out, covers_all = results[0], arguments[-1]
    if not covers_all:
        out.zero_()
    launch(attend_forward, (), arguments, results)


def launch_backward(
    results: tuple[Tensor, Tensor, Tensor], forward: Arguments, arguments: Arguments
) -> None:
    """`forward` are the gradient of the context, the context and the logarithms."""
    grad_qkv, *taps = results
    covers_all = arguments[-1]
    for result in (grad_qkv[:, 3:],) if covers_all else results:
        result.zero_()
    gradient, out, logsumexp = forward
    delta, seed = torch.empty_like(logsumexp), arguments[7]
    bits = None if seed is None else delta.new_empty(*delta.shape, 2, dtype=torch.int32)
    query_taps, key_taps = (t if t.numel() else None for t in taps)
    others = gradient, out, logsumexp, delta, bits
    launch(differentiate_queries, others, arguments, (grad_qkv, query_taps))
    with_bits = (*arguments[:7], bits, *arguments[8:])
    launch(differentiate_keys, (gradient, logsumexp, delta), with_bits, (grad_qkv, key_taps))
