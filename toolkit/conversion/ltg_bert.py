"""Tensors of LTG-BERT and GPT-BERT as their authors publish them, and as the toolkit has them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

ALPHAS = "dwa_modules.alphas"
PAIRS = ("in_proj_qk", "in_proj_vg")
"""Maps of two results, of which each has half of the rows."""


def unpack(saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One tensor for each map, such as in_proj_q and in_proj_k, and one for all weighted sums.

    The gate of feed-forward networks comes first, and the table of offsets has a row before its
    first, which no offset uses. Tensors of unknown shapes keep their names.
    """
    found, alphas = dict(saved), dict[int, Tensor]()
    for name, tensor in saved.items():
        owner, _, kind = name.rpartition(".")
        if kind == "position_indices":  # a buffer of old files
            del found[name]
        elif owner == ALPHAS and kind.isdecimal():
            alphas[int(kind)] = tensor
        elif not tensor.dim() or (len(tensor) % 2 and kind != "relative_embedding"):
            continue
        elif owner.endswith(PAIRS):
            both = zip(owner[-2:], found.pop(name).chunk(2), strict=True)
            found |= {f"{owner[:-2]}{letter}.{kind}": part for letter, part in both}
        elif owner.endswith("mlp.1"):
            found[name] = swap_halves(tensor)
        elif kind == "relative_embedding" and tensor.dim() == 2:
            found[name] = F.pad(tensor, (0, 0, 1, 0))
    if alphas and all(alphas.get(i, torch.empty(0)).shape == (i + 2,) for i in range(len(alphas))):
        rows = [F.pad(alphas[i], (0, len(alphas) - i - 1)) for i in range(len(alphas))]
        found = {name: it for name, it in found.items() if not name.startswith(f"{ALPHAS}.")}
        found[ALPHAS] = torch.stack(rows)
    return found


def pack(found: Mapping[str, Tensor], tied: Mapping[str, str]) -> dict[str, Tensor]:
    """The published tensors, with the copies of those that are tied: what `unpack` reads."""
    saved = dict(found)
    for name, tensor in found.items():
        owner, _, kind = name.rpartition(".")
        for pair in PAIRS:
            second = f"{owner[:-1]}{pair[-1]}.{kind}"
            if owner.endswith(pair[:-1]) and second in found:
                saved[f"{owner}{pair[-1]}.{kind}"] = torch.cat([saved.pop(name), saved.pop(second)])
        if owner.endswith("mlp.1"):
            saved[name] = swap_halves(tensor)
        elif kind == "relative_embedding":
            saved[name] = tensor[1:].contiguous()
        elif name.endswith(ALPHAS):
            rows = {f"{name}.{i}": row[: i + 2].clone() for i, row in enumerate(saved.pop(name))}
            saved |= rows
    for copy, original in tied.items():
        tables = [it for name, it in found.items() if name.endswith(original)]
        if any(name.endswith(copy.rpartition(".")[0] + ".bias") for name in found):
            saved[copy] = tables[0].clone()
    return saved


def swap_halves(tensor: Tensor) -> Tensor:
    """The second half of the rows, then the first."""
    return torch.cat(tensor.chunk(2)[::-1])
