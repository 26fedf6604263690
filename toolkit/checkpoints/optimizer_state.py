"""An optimizer's state by the names of its parameters, independent of their order and groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from toolkit.checkpoints.tensor_files import LazyTensor
from toolkit.common.errors import ToolkitError
from toolkit.distributed.fsdp import local_rows, shard_like

SEPARATOR = "::"
"""Between parameter and quantity; neither holds it."""


def collect_state(optimizer: Optimizer, learner: nn.Module) -> dict[str, Tensor]:
    """`parameter::quantity` -> its value; a plain number becomes a tensor of one float64."""
    found: dict[str, Tensor] = {}
    for name, p in learner.named_parameters():
        for quantity, value in optimizer.state.get(p, {}).items():
            tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.double)
            found[f"{name}{SEPARATOR}{quantity}"] = tensor.detach().contiguous()
    return found


def restore(
    optimizer: Optimizer, learner: nn.Module, saved: Mapping[str, Tensor | LazyTensor]
) -> None:
    """Give every parameter the state that was saved under its name, or its share of that."""
    parameters = dict(learner.named_parameters())
    states: dict[str, dict[str, Any]] = {}
    for key, value in saved.items():
        name, found, quantity = key.rpartition(SEPARATOR)
        if not found:
            continue  # the parameter itself, which shares hold too
        if name not in parameters:
            raise ToolkitError(
                f"the optimizer's state must belong to this learner, but {name!r} is none of its "
                f"parameters. Take only the weights with --finetune-from."
            )
        states.setdefault(name, {})[quantity] = match_parameter(parameters[name], value)
    for name, state in states.items():
        optimizer.state[parameters[name]] = state


def match_parameter(p: Tensor, value: Tensor | LazyTensor) -> Tensor | float:
    """A saved quantity as it belongs to a parameter: sharded like it where it has its shape."""
    if value.shape and value.shape == p.shape:
        return shard_like(p, value[local_rows(p)])
    found = value[...]
    plain = found.dtype == torch.double and not found.dim()
    return float(found) if plain else found.to(p.device)
