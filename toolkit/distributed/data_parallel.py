"""Data parallelism: every rank trains on its own micro-batches, and gradients are averaged.

A rank may keep some rows of a tensor only: `DTensor`, sharded on its first dimension. The modules
of sharding take a second to import: only `apply_fsdp` does so.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

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
    (fully sharded data parallelism, FSDP2; Zhao et al. 2023, section 3).

    Each layer is gathered separately, and all other parameters with the learner, in
    `compute_dtype`: tables that several modules share are needed throughout. Gradients are averaged
    in fp32.
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


def wrap_data_parallel(learner: nn.Module, world: World) -> nn.Module:
    """The learner in DDP if there are several ranks and it is not sharded; not only the encoder:
    the gradients of the task's heads are averaged too.
    """
    if world.size == 1 or is_sharded(learner):
        return learner
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {buffers: False, "gradient_as_bucket_view": True}
    return DistributedDataParallel(learner, **options)


def no_sync(wrapped: nn.Module) -> AbstractContextManager[object]:
    """No gradient exchange in the block: for all but the last micro-batch of an update."""
    if isinstance(wrapped, DistributedDataParallel):
        return wrapped.no_sync()
    return accumulate_sharded(wrapped) if is_sharded(wrapped) else nullcontext()


@contextmanager
def accumulate_sharded(sharded: FSDPModule) -> Iterator[None]:
    """Accumulate unsharded fp32 gradients on each rank."""
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)


class GradientSync:
    """Averages DDP's gradient buckets over the ranks while backward fills them.

    A rank that runs out of memory would block the others forever; instead it contributes zeros
    (`complete_with_zeros`), and then all ranks discard the gradients (`reset_reducer`).
    """

    def __init__(self, wrapped: DistributedDataParallel, world: World) -> None:
        self.wrapped, self.world = wrapped, world
        self.pending: list[dist.Work] = []
        """Buckets of the current pass; emptied before each pass."""
        wrapped.register_comm_hook(None, lambda state, bucket: self.all_reduce_bucket(bucket))

    def complete_with_zeros(self) -> None:
        """Contribute zeros for all buckets not reduced yet, and wait for all of them."""
        gc.collect()  # frees the failed pass, since the zeros need memory
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()
        for bucket in self.wrapped.reducer._get_zeros_like_grad_buckets()[len(self.pending) :]:
            self.all_reduce_bucket(bucket)
        for work in self.pending:
            work.wait()
        self.pending = []

    def reset_reducer(self) -> None:
        """Prepare DDP for another pass after one that may have failed; on all ranks."""
        self.wrapped.reducer._reset_state()
        self.wrapped._has_rebuilt_buckets = False

    def all_reduce_bucket(self, bucket: Any) -> Any:
        """Start averaging one of DDP's buckets over the ranks; returns a Future of the mean."""
        self.world.collectives.entered += 1
        work = dist.all_reduce(bucket.buffer().div_(self.world.size), async_op=True)
        self.pending.append(work)
        return work.get_future().then(lambda future: future.value()[0])
