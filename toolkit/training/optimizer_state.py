"""An optimizer's state by the names of its parameters, independent of their order and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from toolkit.common.errors import ToolkitError

SEPARATOR = "::"
"""Between parameter and quantity; neither holds it."""


def tensors(optimizer: Optimizer, learner: nn.Module) -> dict[str, Tensor]:
    """`parameter::quantity` -> its value; a plain number becomes a tensor of one float64."""
    found: dict[str, Tensor] = {}
    for name, p in learner.named_parameters():
        for quantity, value in optimizer.state.get(p, {}).items():
            tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.double)
            found[f"{name}{SEPARATOR}{quantity}"] = tensor.detach().contiguous()
    return found


def restore(optimizer: Optimizer, learner: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Give every parameter the state that was saved under its name."""
    parameters = dict(learner.named_parameters())
    states: dict[str, dict[str, Any]] = {}
    for key, value in saved.items():
        name, _, quantity = key.rpartition(SEPARATOR)
        if name not in parameters:
            raise ToolkitError(
                f"the optimizer's state must belong to this learner, but {name!r} is none of its "
                f"parameters. Take only the weights with --finetune-from."
            )
        plain = value.dtype == torch.double and not value.dim()
        states.setdefault(name, {})[quantity] = float(value) if plain else value
    for name, state in states.items():
        device = parameters[name].device
        optimizer.state[parameters[name]] = {
            quantity: value.to(device) if isinstance(value, Tensor) else value
            for quantity, value in state.items()
        }
