"""The exchange of gradients, which a rank can finish whose backward pass has failed."""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from toolkit.distributed.world import World


class GradientSync:
    """Averages DDP's buckets of gradients over the ranks as backward fills them.

    All ranks send the same buckets in the same order, and wait for each other. A rank that runs
    out of memory in between would leave the others waiting for ever; instead it sends zeros in
    place of what is left (`finish`), and then all ranks throw the gradients away (`forget`).
    """

    def __init__(self, wrapped: DistributedDataParallel, world: World) -> None:
        self.wrapped, self.world = wrapped, world
        self.pending: list[Any] = []
        wrapped.register_comm_hook(None, lambda state, bucket: self.all_reduce_bucket(bucket))

    @staticmethod
    def for_ddp(wrapped: nn.Module, world: World) -> GradientSync | None:
        """That of a learner wrapped in DDP; others cannot be finished by a rank that failed."""
        return (
            GradientSync(wrapped, world) if isinstance(wrapped, DistributedDataParallel) else None
        )

    def start(self) -> None:
        self.pending = []

    def complete_with_zeros(self) -> None:
        """Send zeros for all buckets that this rank has not sent, and wait for the rest."""
        gc.collect()  # what the failed pass holds, for the zeros need room
        if self.world.device.type == "cuda":
            torch.cuda.empty_cache()
        for bucket in self.wrapped.reducer._get_zeros_like_grad_buckets()[len(self.pending) :]:
            self.all_reduce_bucket(bucket)
        for work in self.pending:
            work.wait()
        self.pending = []

    def reset_reducer(self) -> None:
        """Make DDP ready for another pass although the latest may have failed; on all ranks."""
        self.wrapped.reducer._reset_state()
        self.wrapped._has_rebuilt_buckets = False

    def all_reduce_bucket(self, bucket: Any) -> Any:
        """Start averaging one of DDP's buckets over the ranks; a Future of the mean."""
        self.world.collectives.entered += 1
        work = dist.all_reduce(bucket.buffer().div_(self.world.size), async_op=True)
        self.pending.append(work)
        return work.get_future().then(lambda future: future.value()[0])
