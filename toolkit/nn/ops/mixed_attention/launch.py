"""Launches of the kernels of mixed attention maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from toolkit.nn.ops.mixed_attention.mixing import mix, mix_backward
from toolkit.nn.ops.mixed_attention.softmax import normalize, normalize_backward
from toolkit.nn.ops.mixed_attention.sources import count_tiles, tile_size
from toolkit.nn.ops.triton_operations.dropout import dropout_numbers

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
    sizes = {"OUT": out, "OUT_WIDTH": width_of(out), "SIZE": tile_size(maps[0])}
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
