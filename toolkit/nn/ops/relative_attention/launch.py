"""Launches of the kernels of attention with learned taps."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from toolkit.nn.ops.relative_attention.backward import differentiate_keys, differentiate_queries
from toolkit.nn.ops.relative_attention.forward import attend_forward
from toolkit.nn.ops.relative_attention.inputs import OffsetTables, tile_size
from toolkit.nn.ops.triton_operations.dropout import dropout_numbers

Arguments = tuple[Any, ...]
"""Of the registered operation."""


class Blocks(NamedTuple):
    """Rows of a program, other rows that it reads at a time, its warps, and blocks in flight."""

    own: int
    others: int
    warps: int
    stages: int


def choose_blocks(
    kernel: Any, padded_width: int, element_size: int, *, has_key_table: bool
) -> Blocks:
    """Large blocks whose numbers fit into the registers of sm_90."""
    own = 32 if element_size == 4 else 64
    if kernel is differentiate_keys:
        return Blocks(own, 32, warps=8 if has_key_table else 4, stages=2)
    wide = own == 64 and kernel is attend_forward and padded_width <= 64
    return Blocks(own, 64 if wide else 32, warps=4, stages=3)


def constants(qkv: Tensor, tables: OffsetTables, *, causal: bool) -> dict[str, Any]:
    """Arguments that are compiled into a kernel."""
    _, parts, heads, width = qkv.shape
    precision = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"
    return {
        **{"PARTS": parts, "H": heads, "WIDTH": width, "PADDED": tile_size(width)},
        **{"R": tables.offsets, "RP": tables.padded_offsets},
        "QUERY_SHARED": tables.query is not None and len(tables.query) == 1,
        "KEY_SHARED": tables.key is not None and len(tables.key) == 1,
        **{"CAUSAL": causal, "PRECISION": precision},
    }


def launch(kernel: Any, others: Arguments, arguments: Arguments, results: Arguments) -> None:
    """Launch a kernel with a program per block of rows, sentence and head."""
    qkv, bias, query, key, starts, *_, max_length, scale, dropout, causal, _ = arguments
    sizes = tile_size(qkv.shape[3]), qkv.element_size()
    blocks = choose_blocks(kernel, *sizes, has_key_table=key is not None)
    count = triton.cdiv(max_length, blocks.own)
    if not count * len(starts):
        return
    kernel[(count * len(starts) * qkv.shape[2],)](
        *(*others, *arguments[:8], *results),
        *(count, scale, *dropout_numbers(dropout)),
        **constants(qkv, OffsetTables(bias, query, key), causal=causal),
        **{"OWN": blocks.own, "OTHERS": blocks.others},
        **{"num_warps": blocks.warps, "num_stages": blocks.stages},
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
