"""Data parallelism: every rank trains on its own micro-batches, and gradients are averaged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

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
    return accumulate_sharded(cast("FSDPModule", wrapped)) if is_sharded(wrapped) else nullcontext()


@contextmanager
def accumulate_sharded(sharded: FSDPModule) -> Iterator[None]:
    """Accumulate unsharded fp32 gradients on each rank."""
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)
