"""A pass with the largest batches before training, to detect a lack of memory early."""

from __future__ import annotations

import torch

from toolkit.common.errors import ToolkitError
from toolkit.training.gradient import MicroBatchPart
from toolkit.training.oom_retry import gather_failures
from toolkit.training.step import TrainingLoader
from toolkit.training.trainer import Trainer


def should_probe(option: str, device: torch.device) -> bool:
    """Resolve auto, always or never: auto is off on a CPU, which overcommits its memory."""
    return option == "always" or (option == "auto" and device.type == "cuda")


def probe(trainer: Trainer, loader: TrainingLoader) -> None:
    """Run forward and backward on the epoch's largest batches, then discard the gradients."""
    accumulator, device = trainer.accumulator, trainer.world.device
    epoch, reserved = trainer.progress.epoch, reserve_optimizer_memory(trainer)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        for batch in loader.largest_batches(epoch):
            weights = {name: max(1.0, weight) for name, weight in batch.weights.items()}
            part = MicroBatchPart(batch, epoch)
            _, failure = accumulator.try_accumulate([part], weights)
            failures = gather_failures(failure, accumulator)
            accumulator.discard()
            if failures:
                raise ToolkitError(
                    f"the largest batch must fit into memory, but {failures[0]}. Lower "
                    f"--max-tokens or --batch-size, and raise --update-freq instead; or start "
                    f"with --training.memory-probe never: batches that do not fit are then split."
                )
    del reserved


def reserve_optimizer_memory(trainer: Trainer) -> list[torch.Tensor]:
    """Memory for the optimizer's future state, two moments of each parameter, on a GPU."""
    if trainer.optimizer.state or trainer.world.device.type == "cpu":
        return []
    return [torch.empty_like(p) for p in trainer.parameters for _ in range(2)]
