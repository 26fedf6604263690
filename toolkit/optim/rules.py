"""Which parameters an optimizer treats differently from the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.nn import Parameter

Named = tuple[str, Parameter]


def spared(name: str) -> bool:
    """Whether a parameter keeps its size: biases and norms do, every other one decays.

    Chang et al. (2021, their code) spare the names with "bias" and "LayerNorm.weight": the tables
    of a convolution decay, whatever their number of axes. Here a norm is an owner with "norm" in
    its name.
    """
    *owners, last = name.lower().split(".")
    return "bias" in last or any("norm" in owner for owner in owners[-1:])


def decayed_and_spared(parameters: Iterable[Named], weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer: those that decay, then those that do not."""
    named = [(name, p) for name, p in parameters if p.requires_grad]
    decayed = [(name, p) for name, p in named if not spared(name)]
    rest = [(name, p) for name, p in named if spared(name)]
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
