"""Products with a table of classes, padded to a number of classes that suits tensor cores."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

CLASSES_MULTIPLE = {"cuda": 64}
"""Device -> a divisor of the number of classes computed. CUDA's products of half precision are
several times slower if rows do not begin at multiples of 16 bytes."""
MIN_ROWS = 32
"""With fewer rows, a product reads the table once and is not faster than padding it."""


def aligned_linear(
    x: Float[Tensor, "N E"],
    table: Float[Tensor, "C E"],
    bias: Float[Tensor, " C"] | None = None,
    cap: float | None = None,
) -> Float[Tensor, "N C"]:
    """x @ table.T + bias; with a cap, soft caps of it."""
    if not count_padding(x, table):
        return soft_cap(F.linear(x, table, bias), cap)
    return soft_cap(F.linear(*pad_classes(*cast_operands(x, table, bias)))[:, : len(table)], cap)


def soft_cap(z: Float[Tensor, "N C"], cap: float | None) -> Float[Tensor, "N C"]:
    """c tanh(z / c) (Gemma Team 2024, "Gemma 2", section 2); z without a cap."""
    return z if cap is None else cap * torch.tanh(z / cap)


def count_padding(x: Float[Tensor, "N E"], table: Float[Tensor, "C E"]) -> int:
    """Rows of zeros that the table gets."""
    return 0 if len(x) < MIN_ROWS else -len(table) % CLASSES_MULTIPLE.get(x.device.type, 1)


def pad_classes(
    x: Float[Tensor, "N E"], table: Float[Tensor, "C E"], bias: Float[Tensor, " C"] | None
) -> tuple[Float[Tensor, "N E"], Float[Tensor, "P E"], Float[Tensor, " P"] | None]:
    """The operands, with zeros for the classes that are added."""
    if not (rows := count_padding(x, table)):
        return x, table, bias
    table = torch.cat([table, table.new_zeros(rows, table.shape[1])])
    return x, table, None if bias is None else F.pad(bias, (0, rows))


def cast_operands(
    x: Tensor, table: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The operands in autocast's precision."""
    device = x.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        x, table = x.to(dtype), table.to(dtype)
    return x, table, None if bias is None else bias.to(x.dtype)
