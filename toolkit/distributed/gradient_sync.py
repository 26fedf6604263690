"""The exchange of gradients, which a rank can finish whose backward pass has failed."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from toolkit.distributed.world import World


class Exchange:
    """Averages DDP's buckets of gradients over the ranks as backward fills them.

    All ranks send the same buckets in the same order, and wait for each other. A rank that runs
    out of memory in between would leave the others waiting for ever; instead it sends zeros in
    place of what is left (`finish`), and then all ranks throw the gradients away (`forget`).
    """

    def __init__(self, wrapped: DistributedDataParallel, world: World) -> None:
        self.wrapped, self.world = wrapped, world
        self.sent: list[Any] = []
        wrapped.register_comm_hook(None, lambda state, bucket: self.average(bucket))

    @staticmethod
    def of(wrapped: nn.Module, world: World) -> Exchange | None:
        """That of a learner wrapped in DDP; others cannot be finished by a rank that failed."""
        return Exchange(wrapped, world) if isinstance(wrapped, DistributedDataParallel) else None

    def begin(self) -> None:
        self.sent = []

    def finish(self) -> None:
        """Send zeros for all buckets that this rank has not sent, and wait for the rest."""
        gc.collect()  # what the failed pass holds, for the zeros need room
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()
        for bucket in self.wrapped.reducer._get_zeros_like_grad_buckets()[len(self.sent) :]:
            self.average(bucket)
        for work in self.sent:
            work.wait()
        self.sent = []

    def forget(self) -> None:
        """Make DDP ready for another pass although the latest may have failed; on all ranks."""
        self.wrapped.reducer._reset_state()
        self.wrapped._has_rebuilt_buckets = False

    def average(self, bucket: Any) -> Any:
        """Start averaging one of DDP's buckets over the ranks; a Future of the mean."""
        self.world.pulse.entered += 1
        work = dist.all_reduce(bucket.buffer().div_(self.world.size), async_op=True)
        self.sent.append(work)
        return work.get_future().then(lambda future: future.value()[0])
