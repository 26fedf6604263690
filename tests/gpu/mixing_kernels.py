"""The kernels of mixed attention maps, in the variants that TACO launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.gpu.machine_code import Variant
from toolkit.nn.ops.kernel_inputs import KEY_TAPS, MAP, QUERY_TAPS
from toolkit.nn.ops.kernels.mixed_attention import (
    WARPS,
    mix,
    mix_backward,
    normalize,
    normalize_backward,
    softmax_blocks,
)

SIZES = {"bf16": (16, 16), "fp32": (8, 16)}
HEADS, KINDS = (12, 12, 12, 6, 18), (MAP, QUERY_TAPS, KEY_TAPS, MAP, MAP)
STRIDES = {
    MAP: ("i32:16", "i32:16", "i32:16", "1"),
    QUERY_TAPS: ("i32:16", "i32:16", "i32", "1"),
    KEY_TAPS: ("i32:16", "i32:16", "1", "i32"),
}
"""Of heads, sentences, queries and keys."""
LENGTHS = (512,)


def mixing_variants() -> Iterator[tuple[str, Variant]]:
    for dtype in SIZES:
        types, constants = mixing_arguments(dtype)
        yield f"mix {dtype}", Variant(mix, types, constants, WARPS)
        constants = {**constants, "TAPS": KINDS, "PARTS": WARPS}
        yield f"mix backward {dtype}", Variant(mix_backward, types, constants, WARPS)
    for length in LENGTHS:
        types, constants = softmax_arguments(length)
        yield f"normalize {length}", Variant(normalize, types, constants)
        yield f"normalize backward {length}", Variant(normalize_backward, types, constants)


def mixing_arguments(dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Types and constants."""
    strides = tuple(STRIDES[kind] for kind in KINDS)
    types: dict[str, Any] = {name: f"*{dtype}" for name in ("weight", "out", "gradient")}
    types |= {name: "*fp32" for name in ("bias", "slope", "sums")}
    types |= {name: (f"*{dtype}",) * len(HEADS) for name in ("maps", "grads")}
    types |= {"strides": strides, "grad_strides": strides}
    types |= {name: STRIDES[MAP] for name in ("out_strides", "gradient_strides")}
    constants = {
        "HEADS": HEADS,
        "WIDTHS": (16, 16, 16, 16, 32),
        "FIRST": (0, 12, 24, 36, 42),
        **{"OUT": 18, "OUT_WIDTH": 32, "SIZE": SIZES[dtype]},
    }
    return {**types, "channels": "i32", "length": "i32:16"}, constants


def softmax_arguments(length: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """With padding, dropout and scores for the next layer, in bf16."""
    pointers = ("scores", "out", "of_words", "of_positions", "of_scores")
    types: dict[str, Any] = {name: "*bf16" for name in pointers}
    types |= {"padding": "*i1", "seed": "*i64", "threshold": "i32", "scale": "fp32"}
    types |= {name: "i32" for name in ("word_rows", "sentences", "rows_each")}
    return {**types, "length": "i32:16"}, softmax_blocks(length)
