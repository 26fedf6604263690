"""The gradient of an update: forward and backward over its micro-batches, on all ranks.

After running out of memory, the update is tried again in smaller parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import count
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from toolkit.common.arrays import derive_seed
from toolkit.common.errors import ToolkitError, first_line, is_out_of_memory
from toolkit.criteria import Criterion
from toolkit.data.loading.loader import BatchLoader, first_index_of_rank
from toolkit.distributed import GradientSync, World, no_sync
from toolkit.distributed.world import seed_rng
from toolkit.nn.ops.kernels import drawing_seeds
from toolkit.optim.update import Precision
from toolkit.tasks.examples import Batch, to_device
from toolkit.tasks.learner import Learner
from toolkit.training.step import AdaptiveTask, TrainingProgress

Losses = dict[str, Tensor]
"""Objective -> summed loss over this rank's micro-batches."""
Factor = float | Float[Tensor, ""]
"""Of an objective's summed loss in the gradient."""


MicroBatchPart = tuple[Batch, int]
"""A micro-batch or a part of one, with the seed of its dropout."""


class GradientAccumulator:
    """Sums d/dp of sum_o coefficient_o total_o / W_o over all parts of all ranks.

    A rank that runs out of memory completes the gradient exchange with zeros, so that no other rank
    waits for it. `try_accumulate` reports this, and then all ranks must call `discard`.
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
        self.gradient_sync: GradientSync | None = None
        if isinstance(wrapped, DistributedDataParallel):  # a sharded exchange cannot be completed
            self.gradient_sync = GradientSync(wrapped, world)

    def try_accumulate(
        self, parts: Sequence[MicroBatchPart], weights: Mapping[str, float]
    ) -> tuple[Losses, str]:
        """The summed losses, and ""; or none, and a description of the batch that did not fit."""
        if self.gradient_sync:
            self.gradient_sync.pending = []
        losses, error = run_in_memory(lambda: self.accumulate(parts, weights))
        if losses is not None:
            return losses, ""
        shapes = [tuple(batch.inputs.tokens.shape) for batch, _ in parts]
        sentences, tokens = max(shapes, key=lambda shape: (shape[0] * shape[1], shape[1]))
        failure = f"a batch of {sentences} sentences x {tokens} tokens ({error})"
        if self.gradient_sync:
            self.gradient_sync.complete_with_zeros()
        elif self.world.size > 1:
            raise ToolkitError(
                f"a micro-batch must fit into the memory of rank {self.world.rank}, but {failure} "
                f"did not, and sharded ranks cannot repeat an update in smaller parts. Lower "
                f"--max-tokens or --batch-size, and raise --update-freq instead."
            )
        return {}, failure

    def discard(self) -> None:
        """Drop the gradients, so that all ranks can repeat the update."""
        self.learner.zero_grad()
        if isinstance(self.learner.task, AdaptiveTask):
            self.learner.task.on_discard()
        if self.gradient_sync:
            self.gradient_sync.reset_reducer()

    def accumulate(self, parts: Sequence[MicroBatchPart], weights: Mapping[str, float]) -> Losses:
        """The summed losses; ranks average their gradients during the last part's backward pass."""
        if not self.learner.training:
            self.learner.train()
        losses: Losses = {}
        for index, part in enumerate(parts):
            self.learner.encoder.check_ids(part[0].inputs)
            last = index == len(parts) - 1
            with nullcontext() if last else no_sync(self.wrapped):
                for name, total in self.accumulate_part(part, weights, syncs=last).items():
                    losses[name] = losses[name] + total if name in losses else total
        return losses

    def accumulate_part(
        self, part: MicroBatchPart, weights: Mapping[str, float], *, syncs: bool
    ) -> Losses:
        """Add the gradient of one part, times the world size since ranks are averaged over.

        A loss that is not finite makes the gradient, and so its norm on every rank, not finite:
        all ranks skip the update.
        """
        batch, seed = part
        seed_rng(seed, self.world.device)
        return self.run_pass(self.to_device(batch), self.loss_factors(weights), syncs=syncs)

    def to_device(self, batch: Batch) -> Batch:
        """The batch as the learner reads it."""
        return to_device(batch, self.world.device, packs=self.learner.encoder.uses_packing)

    def run_pass(
        self, batch: Batch, factors: Mapping[str, Factor], *, syncs: bool = False
    ) -> Losses:
        """Forward and backward over a batch on the device; the summed losses."""
        loss, totals = self.compute_loss(self.wrapped, batch, factors)
        scale = self.precision.loss_scale
        initial_gradient = 0 * loss.detach() + (scale.scale if scale else 1.0)  # or not a number
        waits = syncs and self.world.size > 1
        waiting = self.world.collectives.waiting("the exchange of gradients")
        with waiting if waits else nullcontext():
            loss.backward(initial_gradient)
        return {name: total.detach() for name, total in totals.items()}

    def compute_loss(
        self, learner: nn.Module, batch: Batch, factors: Mapping[str, Factor]
    ) -> tuple[Float[Tensor, ""], Losses]:
        """sum_o factor_o total_o of a batch on the device, and the totals."""
        with self.precision.autocast(), drawing_seeds(together=True):
            self.criterion.observe(learner, batch)
            totals = self.criterion(self.precision.call(learner, batch))
        return torch.stack([total * factors[name] for name, total in totals.items()]).sum(), totals

    def global_loss(self, losses: Losses, weights: Mapping[str, float]) -> Float[Tensor, ""]:
        """sum_o coefficient_o total_o / W_o over all ranks, on the device."""
        size, factors = self.world.size, self.loss_factors(weights)
        parts = [total.detach() * factors[name] / size for name, total in losses.items()]
        zero = torch.zeros((), device=self.world.device)
        return self.world.all_reduce(torch.stack([zero, *parts]).sum())

    def loss_factors(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Objective -> world size x coefficient / W; 0 if there was nothing to predict."""
        size, coefficients = self.world.size, self.learner.task.coefficients
        return {o: size * coefficients[o] / w if w else 0.0 for o, w in weights.items()}


MAX_HALVINGS = 4
"""Maximum number of halvings of the micro-batches before training ends."""


class OomRetry:
    """The gradient of micro-batches, in halves, quarters, ... if some rank runs out of memory.

    The normalizers are known in advance, so the gradients of the parts sum to that of the whole,
    except for dropout, which is drawn for each part. All ranks split into equally many parts.
    """

    def __init__(self, accumulator: GradientAccumulator, seed: int) -> None:
        self.accumulator, self.world, self.seed = accumulator, accumulator.world, seed
        self.loader: BatchLoader[Batch] | None = None
        """The epoch's data; without it, micro-batches are not split."""
        self.part_count = 1
        """Parts into which each micro-batch of the latest update was split."""
        self.failures: list[str] = []
        """The attempts of the latest update that did not fit, by rank."""

    def __call__(
        self,
        micro_batches: Sequence[Batch],
        weights: Mapping[str, float],
        progress: TrainingProgress,
    ) -> Losses:
        self.failures = []
        for halvings in range(MAX_HALVINGS + 1):
            self.part_count = 2**halvings
            parts = self.split_micro_batches(micro_batches, progress)
            losses, failure = self.accumulator.try_accumulate(parts, weights)
            failures = gather_failures(failure, self.accumulator)
            if not failures:
                return losses
            self.accumulator.discard()
            self.failures += failures
            if self.loader is None:
                break
        raise ToolkitError(
            f"a micro-batch must fit into memory, but {self.failures[0]} in update "
            f"{progress.update + 1}, nor did it in {self.part_count} parts. Lower --max-tokens or "
            f"--batch-size and raise --update-freq instead."
        )

    def split_micro_batches(
        self, micro_batches: Sequence[Batch], progress: TrainingProgress
    ) -> list[MicroBatchPart]:
        """The parts of this rank's micro-batches, each with a separate seed."""
        parts: list[MicroBatchPart] = []
        rank, ranks = self.world.rank, self.world.size
        indices = count(first_index_of_rank(progress.consumed, rank, ranks), ranks)
        for index, batch in zip(indices, micro_batches, strict=False):
            seed = self.seed, progress.epoch, index
            if self.part_count == 1 or self.loader is None:
                parts.append((batch, derive_seed(*seed)))
                continue
            batches = self.loader.split_micro_batch(progress.epoch, index, self.part_count)
            parts += [
                (part, derive_seed(*seed, self.part_count, number))
                for number, part in enumerate(batches)
            ]
        return parts


def gather_failures(failure: str, accumulator: GradientAccumulator) -> list[str]:
    """The failures of all ranks; costs one small all-reduce if there are none."""
    world = accumulator.world
    if world.size > 1 and not world.all_reduce(torch.tensor(float(bool(failure)))):
        return []
    texts = enumerate(world.all_gather(failure))
    return [f"{text} did not on rank {rank}" for rank, text in texts if text]


T = TypeVar("T")


def run_in_memory(function: Callable[[], T]) -> tuple[T | None, str]:
    """The function's result; or None and the allocator's message, if memory ran out. Then the
    failed attempt's tensors are free, since its traceback is gone.
    """
    try:
        return function(), ""
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None, first_line(error)
