"""Data parallelism: one copy of the learner per rank, gradients averaged as they come."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from toolkit.distributed.world import World


def wrap(learner: nn.Module, world: World) -> nn.Module:
    """The learner, with gradients averaged over the ranks where there are several.

    Wrap the learner, never the encoder alone: the task's heads need their gradients too.
    """
    if world.size == 1:
        return learner
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    options: dict[str, Any] = {buffers: False, "gradient_as_bucket_view": True}
    return DistributedDataParallel(learner, **options)


def without_exchange(wrapped: nn.Module) -> AbstractContextManager[object]:
    """Gradients stay on their rank inside: for all but the last micro-batch of an update."""
    if isinstance(wrapped, DistributedDataParallel):
        return wrapped.no_sync()
    return nullcontext()
