"""Fully sharded data parallelism (FSDP2): each rank keeps some rows of every tensor.

A parameter is gathered before its layer's forward or backward pass, and freed after it. Its
gradient is averaged over the ranks, and each rank keeps its rows (Zhao et al. 2023, section 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from toolkit.distributed.world import World


def apply_fsdp(
    learner: nn.Module,
    layers: Iterable[nn.Module],
    world: World,
    compute_dtype: torch.dtype | None = None,
) -> nn.Module:
    """The learner with its parameters replaced by this rank's rows; make the optimizer afterwards.

    Each layer is gathered separately, and all other parameters with the learner: tables that
    several modules share, as tied heads do, are needed throughout. Parameters are gathered in
    `compute_dtype`; gradients are summed in fp32.
    """
    if not dist.is_initialized():
        return learner
    layers = list(layers)
    uses = Counter(id(p) for layer in layers for p in layer.parameters())
    options: dict[str, Any] = {
        "mesh": init_device_mesh(world.device.type, (world.size,)),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=compute_dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        ),
    }
    for layer in layers:
        if all(uses[id(p)] == 1 for p in layer.parameters()):
            fully_shard(layer, **options)
    fully_shard(learner, **options)
    learner.register_forward_hook(reshard_without_grad)
    return learner


def reshard_without_grad(learner: nn.Module, inputs: object, outputs: object) -> None:
    """Free the learner's gathered parameters after a pass without gradients."""
    if isinstance(learner, FSDPModule) and not torch.is_grad_enabled():
        learner.reshard()
