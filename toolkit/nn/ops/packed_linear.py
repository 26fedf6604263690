"""Linear maps whose weights lie in memory as a CPU's products read them.

A product of few rows spends more on bringing its weights into that order than on multiplying; a
model that only answers does it once. In single precision oneDNN's products also use all of the
registers of processors on which the usual ones do not: 32 rows by 512 x 1024 took 220 us for 493.
"""

from __future__ import annotations

import platform
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

TUNED_ROWS = 32
"""For which the order is chosen; any other number is multiplied too."""


def supports_packing(weight: Tensor) -> bool:
    """Whether this torch, on this processor, has such products for it."""
    if weight.device.type != "cpu" or platform.machine() not in {"x86_64", "AMD64"}:
        return False
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return False
    ops: Any = torch.ops.mkldnn
    if not (hasattr(ops, "_reorder_linear_weight") and hasattr(ops, "_linear_pointwise")):
        return False
    if weight.dtype == torch.bfloat16:
        return bool(ops._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32


class PackedLinear(nn.Module):
    """W x + b without gradients. It has no weights that could be saved, moved or trained."""

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None) -> None:
        super().__init__()
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), TUNED_ROWS)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        multiply: Any = torch.ops.mkldnn._linear_pointwise
        found: Tensor = multiply(x, self.packed, self.bias, "none", [], "")
        return found


def pack_linear(weight: Float[Tensor, "O I"], bias: Tensor | None = None) -> PackedLinear | None:
    """The map by this weight; None where it must stay as it is."""
    return PackedLinear(weight, bias) if supports_packing(weight) else None


def pack_linear_layers(model: nn.Module) -> None:
    """Every nn.Linear within becomes a PackedLinear, where that is possible: to answer only."""
    done: dict[nn.Linear, PackedLinear | None] = {}
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is not nn.Linear:
                continue
            if child not in done:
                done[child] = pack_linear(child.weight, child.bias)
            if (found := done[child]) is not None:
                setattr(parent, name, found)
