"""The kernels of attention with learned taps, in the variants that encoders launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.gpu.machine_code import Variant
from toolkit.nn.ops.kernel_inputs import tile_size
from toolkit.nn.ops.kernels.attention_backward import (
    choose_blocks,
    differentiate_keys,
    differentiate_queries,
)
from toolkit.nn.ops.kernels.attention_forward import attend_forward

KERNELS = {
    "attend": attend_forward,
    "differentiate queries": differentiate_queries,
    "differentiate keys": differentiate_keys,
}
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
TABLES = {"no taps": (), "query taps": ("bias", "query"), "all taps": ("bias", "query", "key")}
OFFSETS = 17
HEADS = 4


class Form(NamedTuple):
    """What a model's calls are compiled for."""

    dtype: str = "bf16"
    tables: str = "query taps"
    width: int = 64
    parts: int = 3
    positions: bool = False
    dropout: bool = True
    causal: bool = False

    @property
    def name(self) -> str:
        words = [f"width {self.width}"] * (self.width != 64) + ["4 parts"] * (self.parts == 4)
        words += ["positions"] * self.positions + ["causal"] * self.causal
        return " ".join([self.dtype, self.tables, *words, *["no dropout"] * (not self.dropout)])

    @property
    def types(self) -> dict[str, str]:
        """Of the arguments of all three kernels."""
        read = ("gradient", "out", "qkv", "grad_qkv", "grad_taps")
        types = {name: f"*{self.dtype}" for name in read}
        types |= {name: "*fp32" for name in ("logsumexp", "delta", "bias", "query", "key")}
        types |= {"starts": "*i32", "lengths": "*i32", "positions": "*i64", "seed": "*i64"}
        types["row_bits"] = "*i32"
        return types | {"blocks": "i32", "scale": "fp32", "threshold": "i32", "keep_scale": "fp32"}

    def blocks(self, kernel: Any) -> dict[str, int]:
        sizes = tile_size(self.width), BYTES[self.dtype]
        return choose_blocks(kernel, *sizes, has_key_table="key" in TABLES[self.tables])

    def missing(self, kernel: Any) -> list[str]:
        """Arguments that are None."""
        tables = TABLES[self.tables]
        names = [name for name in ("bias", "query", "key") if name not in tables]
        names += ["positions"] * (not self.positions) + ["seed", "row_bits"] * (not self.dropout)
        taps = "key" in tables if kernel is differentiate_keys else bool(tables)
        return names + ["grad_taps"] * (not taps)

    def constants(self, kernel: Any) -> dict[str, Any]:
        offsets = OFFSETS if TABLES[self.tables] else 1
        blocks = self.blocks(kernel)
        missing = [name for name in self.missing(kernel) if name in kernel.arg_names]
        return {
            **dict.fromkeys(missing),
            **{"PARTS": self.parts, "H": HEADS, "WIDTH": self.width},
            **{"PADDED": tile_size(self.width), "R": offsets, "RP": tile_size(offsets)},
            **{"QUERY_SHARED": True, "KEY_SHARED": True, "CAUSAL": self.causal},
            **{"PRECISION": "tf32", "OWN": blocks["OWN"], "OTHERS": blocks["OTHERS"]},
        }


FORMS = [
    Form(),
    Form("fp32", "all taps"),
    Form(tables="all taps", positions=True),
    Form(tables="no taps", parts=4, width=48),
    Form(width=128),
    Form(causal=True),
]


def attention_variants() -> Iterator[tuple[str, Variant]]:
    for form in FORMS:
        for name, kernel in KERNELS.items():
            blocks = form.blocks(kernel)
            launch = blocks["num_warps"], blocks["num_stages"]
            variant = Variant(kernel, form.types, form.constants(kernel), *launch)
            yield f"{name} {form.name}", variant
