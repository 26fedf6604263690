"""The largest batch first, so that a lack of memory shows at once and not hours later."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.gradient import MicroBatchPart
from toolkit.training.oom_retry import gather_failures
from toolkit.training.trainer import Trainer


@runtime_checkable
class HasLargestBatches(Protocol):
    """What knows an epoch's largest batches."""

    def largest_batches(self, epoch: int) -> list[Any]: ...


def should_probe(option: str, device: torch.device) -> bool:
    """What auto, always or never means on this device: a CPU says too late what does not fit."""
    return option == "always" or (option == "auto" and device.type == "cuda")


def probe(trainer: Trainer, data: HasLargestBatches) -> None:
    """One pass forward and backward with the epoch's largest batches, of which nothing remains."""
    gradient, device = trainer.accumulator, trainer.world.device
    room = reserve_optimizer_memory(trainer)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for batch in data.largest_batches(trainer.progress.epoch):
            weights = {name: max(1.0, weight) for name, weight in batch.weights.items()}
            _, failure = gradient.try_accumulate(
                [MicroBatchPart(batch, trainer.progress.epoch)], weights
            )
            failures = gather_failures(failure, gradient)
            gradient.discard()
            if failures:
                raise ToolkitError(
                    f"the largest batch must fit into memory, but {failures[0]}. Lower "
                    f"--max-tokens or --batch-size and raise --update-freq instead; or begin all "
                    f"the same with --training.memory-probe never, and batches are halved."
                )
    del room


def reserve_optimizer_memory(trainer: Trainer) -> list[torch.Tensor]:
    """Room for what an optimizer has not made yet: two moments of each parameter on a GPU."""
    if trainer.optimizer.state or trainer.world.device.type == "cpu":
        return []
    return [torch.empty_like(p) for p in trainer.parameters for _ in range(2)]
