"""Attention whose scores depend on clipped offsets between positions, as one operation on a GPU.

out_i = sum_j dropout(softmax_j(scale q_i . k_j + bias_r + q_i . query_r / sqrt(K)
+ k_j . key_r' / sqrt(K))) v_j
with r = clip(p_j - p_i, -radius, radius) + radius and r' = R - 1 - r (Shaw et al. 2018, eq. 4;
Raffel et al. 2020, section 2.1; He et al. 2021, eq. 4), over the positions j of i's sentence.

N rows of all sentences   B sentences   H heads   K head width   R offsets, 2 * radius + 1
P parts: queries, keys, values, and others that are not read

Sentences are ranges of rows, so padding takes neither time nor memory, and no score is written to
memory. The plain form is `attention.attend` with the scores of `scatter_to_diagonals` as its bias.
FLOPs are those of the products that the plain form would do: scores and taps that a kernel computes
again are not counted, unlike the scores of torch's fused attention in its formula. The gradients of
the tables are products of torch, with padded taps.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.flop_counter import register_flop_formula

from toolkit.nn.ops.batched_products import multiply_batch
from toolkit.nn.ops.kernel_inputs import OffsetTables, SentenceRows, tile_size
from toolkit.nn.ops.kernels import define, draw_seed, triton_runs

MAX_HEAD_WIDTH = 128


def kernel_runs(device: torch.device, dtype: torch.dtype, head_width: int) -> bool:
    """Whether `relative_attention` can be called by a model with parameters of a dtype."""
    runs = triton_runs(device, dtype) and has_shared_memory(device)
    return runs and head_width <= MAX_HEAD_WIDTH


@cache
def has_shared_memory(device: torch.device) -> bool:
    """Whether blocks fit into that of a multiprocessor: GPUs before Ampere have 64 KiB or less."""
    return not torch.cuda.is_available() or torch.cuda.get_device_capability(device) >= (8, 0)


def relative_attention(
    qkv: Float[Tensor, "N P H K"],
    tables: OffsetTables,
    rows: SentenceRows,
    *,
    scale: float,
    dropout: float,
    causal: bool = False,
) -> Float[Tensor, "N H K"]:
    """The context of each row; 0 in rows outside of sentences. If causal, keys are rows on the left
    of the query, whatever their position ids. Parts after the first three have a gradient of 0.
    """
    seed = draw_seed(dropout, qkv.device)
    bias = None if tables.bias is None else tables.bias.float().contiguous()
    query, key = (None if t is None else t.contiguous() for t in tables[1:])
    starts, lengths, max_length, positions, covers_all = rows
    out, _ = _attention(
        *(qkv.contiguous(), bias, query, key, starts, lengths, positions, seed),
        *(max_length, scale, dropout, causal, covers_all),
    )
    return out


ARGUMENTS = (
    "Tensor qkv, Tensor? bias, Tensor? query, Tensor? key, Tensor starts, Tensor lengths, "
    "Tensor? positions, Tensor? seed, SymInt max_length, float scale, float dropout, bool causal, "
    "bool covers_all"
)
TENSORS = 8
"""Number of tensors at the start of the arguments."""
FORWARD = f"({ARGUMENTS}) -> (Tensor, Tensor)"
BACKWARD = (
    f"(Tensor gradient, Tensor out, Tensor logsumexp, {ARGUMENTS}) -> (Tensor, Tensor, Tensor)"
)


@define("toolkit::relative_attention", schema=FORWARD)
def _attention(*arguments: Any) -> tuple[Tensor, Tensor]:
    """The context, and the logarithm of each row's sum of exponentials: (N, H, K), (N, H)."""
    from toolkit.nn.ops.kernels.attention_backward import launch_forward

    results = allocate_forward(*arguments)
    launch_forward(results, arguments)
    return results


@_attention.register_fake
def allocate_forward(qkv: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Shapes of the forward results, for compilers."""
    rows, _, heads, width = qkv.shape
    return qkv.new_empty(rows, heads, width), qkv.new_empty(rows, heads, dtype=torch.float32)


@define("toolkit::relative_attention_backward", schema=BACKWARD)
def _attention_backward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of qkv, and of the scores summed by offset: for each query, and for each key.

    (N, P, H, K), (N, H, R'), (N, H, R') with R' >= R; empty without tables that need them.
    """
    from toolkit.nn.ops.kernels.attention_backward import launch_backward

    results = allocate_backward(*arguments)
    launch_backward(results, arguments[:3], arguments[3:])
    return results


@_attention_backward.register_fake
def allocate_backward(
    gradient: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    qkv: Tensor,
    bias: Tensor | None,
    query: Tensor | None,
    key: Tensor | None,
    *rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Shapes of the backward results, for compilers."""
    rows, _, heads, _ = qkv.shape
    by_query, by_key = bias is not None or query is not None, key is not None
    taps = heads, tile_size(OffsetTables(bias, query, key).offsets)
    query_taps = qkv.new_empty(rows if by_query else 0, *taps)
    return qkv.new_empty(qkv.shape), query_taps, qkv.new_empty(rows if by_key else 0, *taps)


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """Save inputs and results for the backward pass."""
    ctx.set_materialize_grads(False)
    ctx.numbers = inputs[TENSORS:]
    ctx.save_for_backward(*output, *inputs[:TENSORS])


def differentiate(ctx: Any, gradient: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    """Gradients of the tables are sums over rows, in torch's operations."""
    none = (None,) * (TENSORS + len(ctx.numbers))
    if gradient is None:
        return none
    out, logsumexp, *tensors = ctx.saved_tensors
    qkv, bias, query, key = tensors[:4]
    grad_qkv, query_taps, key_taps = _attention_backward(
        gradient.contiguous(), out, logsumexp, *tensors, *ctx.numbers
    )
    grad_bias = None
    if bias is not None:
        grad_bias = query_taps.sum(0, dtype=torch.float32)[:, : bias.shape[-1]].to(bias.dtype)
    grad_query = grad_table(qkv[:, 0], query_taps, query)
    grad_key = grad_table(qkv[:, 1], key_taps, key)
    return grad_qkv, grad_bias, grad_query, grad_key, *none[4:]


def grad_table(
    x: Float[Tensor, "N H K"], taps: Float[Tensor, "n H _"], table: Float[Tensor, "#H K R"] | None
) -> Float[Tensor, "#H K R"] | None:
    """sum_n x_n taps_n' / sqrt(K) by head, and by all heads if they share the table."""
    if table is None:
        return None
    scale = x.shape[-1] ** -0.5
    products = multiply_batch(x.permute(1, 2, 0), taps.transpose(0, 1), scale)
    gradient = products[..., : table.shape[-1]]
    if len(table) < len(gradient):
        return gradient.sum(0, keepdim=True, dtype=table.dtype)
    return gradient.to(table.dtype)


_attention.register_autograd(differentiate, setup_context=save_inputs)


def forward_flops(qkv: Tensor, *rest: Any, **named: Any) -> int:
    """FLOPs of the forward pass."""
    return 2 * attention_flops(qkv, *rest) + taps_flops(qkv, *rest)


def backward_flops(*arguments: Any, **named: Any) -> int:
    """Of the gradients of queries, keys, values and weights, and of rows through their taps."""
    return 4 * attention_flops(*arguments[3:]) + taps_flops(*arguments[3:])


def attention_flops(qkv: Tensor, *rest: Any) -> int:
    """Of a product of queries and keys; of weights and values as well.

    Fake sentences all have the maximum length. Scores that a causal mask hides are counted.
    """
    lengths, max_length = rest[4], rest[7]
    known = lengths.device.type != "meta" and not isinstance(lengths, FakeTensor)
    pairs = sum(n * n for n in (lengths.tolist() if known else [max_length] * len(lengths)))
    return 2 * pairs * qkv.shape[2] * qkv.shape[3]


def taps_flops(qkv: Tensor, *rest: Any) -> int:
    """Of the products of rows with tables."""
    rows, _, heads, width = qkv.shape
    return sum(2 * rows * heads * width * t.shape[-1] for t in rest[1:3] if t is not None)


register_flop_formula(torch.ops.toolkit.relative_attention, get_raw=True)(forward_flops)
register_flop_formula(torch.ops.toolkit.relative_attention_backward, get_raw=True)(backward_flops)
