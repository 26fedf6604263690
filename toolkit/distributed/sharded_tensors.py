"""Tensors of which each rank may keep some rows only: `DTensor`, sharded on its first dimension.

Their modules take a second to import. Only `apply_fsdp` imports them, in a run that shards; before
that, no tensor and no learner is sharded.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn

from toolkit.distributed.world import World

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor


def is_sharded_tensor(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether a tensor is a `DTensor`; does not import it."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def is_sharded(learner: nn.Module) -> TypeGuard[FSDPModule]:
    """Whether the parameters of a learner are sharded over the ranks."""
    module = sys.modules.get("torch.distributed.fsdp")
    return module is not None and isinstance(learner, module.FSDPModule)


def to_local(tensor: Tensor) -> Tensor:
    """This rank's rows of a tensor: all rows if it is not sharded."""
    return tensor.to_local() if is_sharded_tensor(tensor) else tensor


def to_full(tensor: Tensor) -> Tensor:
    """The full tensor; all ranks must call it."""
    return tensor.full_tensor() if is_sharded_tensor(tensor) else tensor


def gather_on_main(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Full tensors in the main rank's host memory, gathered one by one; all ranks must call it."""
    gathered = {}
    for name, tensor in tensors.items():
        full = to_full(tensor)
        if world.is_main:
            gathered[name] = full.cpu()
    return gathered


def local_rows(tensor: Tensor) -> slice | EllipsisType:
    """The rows of the full tensor that this rank keeps: equal parts, fewer on the last ranks."""
    if not is_sharded_tensor(tensor):
        return ...
    count = -(-len(tensor) // tensor.device_mesh.size())
    start = min(len(tensor), count * tensor.device_mesh.get_local_rank())
    return slice(start, min(len(tensor), start + count))


def shard_like(tensor: Tensor, rows: Tensor) -> Tensor:
    """These rows, of any width, as this rank's part of a tensor whose rows are sharded alike."""
    rows = rows.to(tensor.device)
    if not is_sharded_tensor(tensor):
        return rows
    return type(tensor).from_local(
        rows,
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=(shape := torch.Size([len(tensor), *rows.shape[1:]])),
        stride=torch.empty(shape, device="meta").stride(),
    )


def total_norm(tensors: Sequence[Tensor]) -> Tensor:
    """The norm of all tensors together, over all ranks if they are sharded."""
    mine = nn.utils.get_total_norm([to_local(tensor) for tensor in tensors])
    sharded = next((tensor for tensor in tensors if is_sharded_tensor(tensor)), None)
    if sharded is None:
        return mine
    squares = mine.double().square()  # may overflow fp32
    dist.all_reduce(squares, group=sharded.device_mesh.get_group())
    return squares.sqrt().to(mine.dtype)


def apply_fsdp(
    learner: nn.Module,
    layers: Iterable[nn.Module],
    world: World,
    compute_dtype: torch.dtype | None = None,
) -> nn.Module:
    """The learner with its parameters replaced by this rank's rows; make the optimizer afterwards
    (fully sharded data parallelism, FSDP2).

    A parameter is gathered before its layer's forward or backward pass, and freed after it. Its
    gradient is averaged over the ranks, and each rank keeps its rows (Zhao et al. 2023, section 3).

    Each layer is gathered separately, and all other parameters with the learner: tables that
    several modules share, as tied heads do, are needed throughout. Parameters are gathered in
    `compute_dtype`; gradients are summed in fp32.
    """
    # slow to import
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

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
    if is_sharded(learner) and not torch.is_grad_enabled():
        learner.reshard()
