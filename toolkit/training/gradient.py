"""The gradient of an update: forward and backward over its micro-batches, on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Criterion
from toolkit.distributed import GradientSync, World, no_sync
from toolkit.optim.precision import Precision
from toolkit.tasks.batch import Batch
from toolkit.tasks.task import Learner
from toolkit.training.device import seed_rng, to_device

Losses = dict[str, Tensor]
"""Objective -> summed loss over this rank's micro-batches."""

OOM_MESSAGES = ("DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""What errors say that are about memory without being an OutOfMemoryError."""


class MicroBatchPart(NamedTuple):
    """A micro-batch or a part of one, and what its randomness is drawn from."""

    batch: Batch
    seed: int


class GradientAccumulator:
    """Adds up d/dp of sum_o coefficient_o total_o / W_o over all pieces of all ranks.

    A rank whose memory does not suffice takes part in the exchange all the same, so that no other
    waits for it; `attempt` says so, and all ranks together must then `discard` what they have.
    """

    def __init__(
        self,
        learner: Learner,
        wrapped: nn.Module,
        criterion: Criterion,
        *,
        world: World,
        precision: Precision,
    ) -> None:
        self.learner, self.wrapped, self.criterion = learner, wrapped, criterion
        self.world, self.precision = world, precision
        self.gradient_sync = GradientSync.for_ddp(wrapped, world)

    def try_accumulate(
        self, parts: Sequence[MicroBatchPart], weights: Mapping[str, float]
    ) -> tuple[Losses, str]:
        """The summed losses; or none, and in words what did not fit into memory."""
        if self.gradient_sync:
            self.gradient_sync.start()
        try:
            return self.accumulate(parts, weights), ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            failure = f"{describe_largest(parts)} ({first_line(error)})"
        # Here the error is gone, and with it the tensors that its traceback kept.
        if self.gradient_sync:
            self.gradient_sync.complete_with_zeros()
        elif self.world.size > 1:
            raise ToolkitError(
                f"a micro-batch must fit into the memory of rank {self.world.rank}, but {failure} "
                f"did not, and sharded ranks cannot repeat a pass that one of them broke off. "
                f"Lower --max-tokens or --batch-size and raise --update-freq instead."
            )
        return {}, failure

    def discard(self) -> None:
        """Drop the gradients, so that all ranks may begin again."""
        self.learner.zero_grad()
        if self.gradient_sync:
            self.gradient_sync.reset_reducer()

    def accumulate(self, parts: Sequence[MicroBatchPart], weights: Mapping[str, float]) -> Losses:
        """The gradients are exchanged with the last piece."""
        self.learner.train()
        losses: Losses = {}
        for index, piece in enumerate(parts):
            last = index == len(parts) - 1
            with nullcontext() if last else no_sync(self.wrapped):
                for name, total in self.accumulate_part(piece, weights, syncs=last).items():
                    losses[name] = losses[name] + total if name in losses else total
        return losses

    def accumulate_part(
        self, part: MicroBatchPart, weights: Mapping[str, float], *, syncs: bool
    ) -> Losses:
        """Add one piece's gradient, times the world's size since ranks are averaged over.

        A loss that is not finite makes its gradient so, and thereby the norm on every rank: all
        of them skip the update alike.
        """
        device = self.world.device
        seed_rng(part.seed, device)
        with self.precision.autocast():
            totals = self.criterion(self.wrapped(to_device(part.batch, device)))
        factors = self.loss_factors(weights)
        loss = torch.stack([total * factors[name] for name, total in totals.items()]).sum()
        scale = self.precision.loss_scale
        start = torch.where(loss.isfinite(), scale.scale if scale else 1.0, torch.nan)
        waits = syncs and self.world.size > 1
        with (
            self.world.collectives.waiting("the exchange of gradients") if waits else nullcontext()
        ):
            loss.backward(start)
        return {name: total.detach() for name, total in totals.items()}

    def global_loss(self, losses: Losses, weights: Mapping[str, float]) -> Float[Tensor, ""]:
        """sum_o coefficient_o total_o / W_o over all ranks, on the device."""
        size, factors = self.world.size, self.loss_factors(weights)
        parts = [total.detach() * factors[name] / size for name, total in losses.items()]
        zero = torch.zeros((), device=self.world.device)
        return self.world.all_reduce(torch.stack([zero, *parts]).sum())

    def loss_factors(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Objective -> world x coefficient / W; 0 where nothing was to predict."""
        size, coefficients = self.world.size, self.learner.task.coefficients
        return {o: size * coefficients[o] / w if w else 0.0 for o, w in weights.items()}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a GPU, or the host, has refused memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(text in str(error) for text in OOM_MESSAGES)


def describe_largest(pieces: Sequence[MicroBatchPart]) -> str:
    """The shape of the largest batch, in words."""
    shapes = [tuple(piece.batch.inputs.tokens.shape) for piece in pieces]
    sentences, tokens = max(shapes, key=lambda shape: (shape[0] * shape[1], shape[1]))
    return f"a batch of {sentences} sentences x {tokens} tokens"


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].strip().rstrip(".")
