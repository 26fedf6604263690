"""Data parallelism: every rank trains on its own micro-batches, and gradients are averaged.

A rank can complete the averaging after its backward pass has failed.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from toolkit.distributed.sharded_tensors import is_sharded
from toolkit.distributed.world import World

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule


def wrap_data_parallel(learner: nn.Module, world: World) -> nn.Module:
    """The learner in DDP if there are several ranks and it is not sharded.

    It must be the learner, not the encoder: the gradients of the task's heads are averaged too.
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

    All ranks reduce the same buckets in the same order. A rank that runs out of memory in the
    backward pass would block the others forever; instead it contributes zeros for its remaining
    buckets (`complete_with_zeros`), and then all ranks discard the gradients (`reset_reducer`).
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
