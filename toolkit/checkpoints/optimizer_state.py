"""Optimizer state keyed by parameter name, independent of order and parameter groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from toolkit.checkpoints.tensor_files import LazyTensor
from toolkit.common.errors import ToolkitError
from toolkit.distributed.sharded_tensors import local_rows, shard_like

SEPARATOR = "::"
"""Separates the names of parameter and quantity."""


def collect_state(optimizer: Optimizer, learner: nn.Module) -> dict[str, Tensor]:
    """`parameter::quantity` -> its value; a Python number becomes a float64 scalar."""
    state: dict[str, Tensor] = {}
    for name, p in learner.named_parameters():
        for quantity, value in optimizer.state.get(p, {}).items():
            tensor = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.double)
            state[f"{name}{SEPARATOR}{quantity}"] = tensor.detach().contiguous()
    return state


def restore(
    optimizer: Optimizer, learner: nn.Module, saved: Mapping[str, Tensor | LazyTensor]
) -> None:
    """Restore each parameter's state by its name; of sharded parameters, this rank's rows."""
    parameters = dict(learner.named_parameters())
    states: dict[str, dict[str, Any]] = {}
    for key, value in saved.items():
        name, separator, quantity = key.rpartition(SEPARATOR)
        if not separator:
            continue  # a parameter, which shards also contain
        if name not in parameters:
            raise ToolkitError(
                f"the optimizer's state must belong to this learner, but {name!r} is not a "
                f"parameter of it. Load only the weights with --finetune-from."
            )
        states.setdefault(name, {})[quantity] = match_parameter(parameters[name], value)
    for name, state in states.items():
        optimizer.state[parameters[name]] = state


def match_parameter(p: Tensor, value: Tensor | LazyTensor) -> Tensor | float:
    """A saved quantity in the optimizer's form: sharded like a parameter of the same shape."""
    if value.shape and value.shape == p.shape:
        return shard_like(p, value[local_rows(p)])
    tensor = value[...]
    is_number = tensor.dtype == torch.double and not tensor.dim()
    return float(tensor) if is_number else tensor.to(p.device)
