"""FLOPs of attention with learned taps: those of the products that the plain path would do.

Scores and taps that a kernel computes again are not counted, unlike the scores of torch's fused
attention in its formula. The gradients of the tables are products of torch, with padded taps.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


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
