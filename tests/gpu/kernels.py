"""Every Triton kernel of the toolkit, in the variants that models launch."""

from __future__ import annotations

from collections.abc import Iterator

from tests.gpu.attention_kernels import attention_variants
from tests.gpu.machine_code import Variant
from tests.gpu.mixing_kernels import mixing_variants
from toolkit.nn.ops.kernels import (
    add_norm as add_norm_kernels,
    cross_entropy as cross_entropy_kernels,
    depthwise as depthwise_kernels,
    gelu as gelu_kernels,
)
from toolkit.nn.ops.kernels.banded_convolution import ROWS, _convolve, _correlate

FORMATS = ("fp32", "bf16", "fp16")
TAPS = 9


def kernel_variants() -> Iterator[tuple[str, Variant]]:
    """A name and a compilation each; a new kernel joins here."""
    for dtype, width in (("fp32", 64), ("bf16", 64), ("fp16", 16)):
        sizes = {"length": "i32", "width": "i32"}
        constants = {"TAPS": TAPS, "ROWS": ROWS, "WIDTH": width}
        pointers = {name: f"*{dtype}" for name in ("taps", "v", "out", "g")}
        for transposed in (False, True):
            name = f"convolve{' transposed' * transposed} {dtype} {width}"
            yield (
                name,
                Variant(_convolve, {**pointers, **sizes}, {**constants, "TRANSPOSED": transposed}),
            )
        yield f"correlate {dtype} {width}", Variant(_correlate, {**pointers, **sizes}, constants)
    yield from depthwise_variants()
    yield from mixing_variants()
    yield from attention_variants()
    yield from cross_entropy_variants()
    yield from add_norm_variants()
    yield from gelu_variants()


def depthwise_variants() -> Iterator[tuple[str, Variant]]:
    for dtype in FORMATS:
        types = {name: f"*{dtype}" for name in ("x", "y", "gradient")}
        types |= {name: "*fp32" for name in ("weight", "bias", "sums")}
        types |= {"length": "i32", "width": "i32:16"}
        sizes = {
            "ROWS": depthwise_kernels.ROWS,
            "CHANNELS": depthwise_kernels.CHANNELS,
            "TAPS": TAPS,
        }
        yield f"depthwise {dtype}", Variant(depthwise_kernels._convolve, types, sizes)
        chunks = {**sizes, "CHUNK": depthwise_kernels.CHUNK}
        yield f"depthwise backward {dtype}", Variant(depthwise_kernels._correlate, types, chunks)


def cross_entropy_variants() -> Iterator[tuple[str, Variant]]:
    for dtype in FORMATS:
        types = {"logits": f"*{dtype}", "targets": "*i64", "valid": "*i1", "losses": "*fp32"}
        types |= {"classes": "i32", "padded_classes": "i32:16", "smoothing": "fp32"}
        constants = {"COLUMNS": cross_entropy_kernels.COLUMNS}
        variant = Variant(
            cross_entropy_kernels.differentiate, types, constants, cross_entropy_kernels.WARPS
        )
        yield f"cross-entropy {dtype}", variant


def add_norm_variants() -> Iterator[tuple[str, Variant]]:
    """With dropout, at the widths of small and base models."""
    for dtype, width in (("fp32", 768), ("bf16", 256)):
        names = ("normed", "totals", "x", "y", "gradient", "of_x", "of_y")
        types = {name: f"*{dtype}" for name in names}
        types |= {name: "*fp32" for name in ("weight", "bias", "sums")}
        types |= {"seed": "*i64", "rows": "i32", "width": "i32:16", "threshold": "i32"}
        types |= {"eps": "fp32", "scale": "fp32"}
        sizes = add_norm_kernels.blocks(width)
        forward = Variant(add_norm_kernels.add_and_normalize, types, sizes)
        yield f"add and normalize {dtype} {width}", forward
        for sums, name in ((2, ""), (3, " and bias")):
            backward = Variant(add_norm_kernels.differentiate, types, {**sizes, "SUMS": sums})
            yield f"add and normalize backward{name} {dtype} {width}", backward


def gelu_variants() -> Iterator[tuple[str, Variant]]:
    for dtype in FORMATS:
        types = {name: f"*{dtype}" for name in ("of_x", "gradient", "x")}
        types |= {"sums": "*fp32", "rows": "i32", "width": "i32:16"}
        sizes = {"ROWS": gelu_kernels.ROWS, "COLUMNS": gelu_kernels.COLUMNS}
        yield f"gelu backward {dtype}", Variant(gelu_kernels.differentiate, types, sizes)
