"""Data parallelism: every rank learns from its own micro-batches, gradients are averaged."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from toolkit.distributed.world import World


def wrap_data_parallel(learner: nn.Module, world: World) -> nn.Module:
    """The learner, with gradients averaged over the ranks where there are several.

    Wrap the learner, never the encoder alone: the task's heads need their gradients too. A sharded
    learner averages its own.
    """
    if world.size == 1 or isinstance(learner, FSDPModule):
        return learner
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {buffers: False, "gradient_as_bucket_view": True}
    return DistributedDataParallel(learner, **options)


def no_sync(wrapped: nn.Module) -> AbstractContextManager[object]:
    """Gradients stay on their rank inside: for all but the last micro-batch of an update."""
    if isinstance(wrapped, DistributedDataParallel):
        return wrapped.no_sync()
    return accumulate_sharded(wrapped) if isinstance(wrapped, FSDPModule) else nullcontext()


@contextmanager
def accumulate_sharded(sharded: FSDPModule) -> Iterator[None]:
    """Gradients of the whole parameters add up on their rank, in fp32."""
    sharded.set_requires_gradient_sync(False)
    try:
        yield
    finally:
        sharded.set_requires_gradient_sync(True)
