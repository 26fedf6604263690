"""Where numbers cease to be finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.criteria import Criterion
from toolkit.tasks.task import Learner
from toolkit.training.device import to_device
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

STREAK = 10
"""Skipped updates in a row that end training."""


def tensors(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [t for part in value for t in tensors(part)] if isinstance(value, tuple | list) else []


def finite(value: Any) -> bool:
    return all(bool(t.isfinite().all()) for t in tensors(value) if t.is_floating_point())


def first_non_finite(learner: Learner, criterion: Criterion, batch: Any) -> str | None:
    """The first parameter or layer of a forward pass that is not finite, in words."""
    for name, p in learner.named_parameters():
        if not finite(p):
            return f"the parameter {name}"
    found: list[str] = []

    def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
            if not finite(outputs):
                found.append(f"the output of {name or 'the learner'} ({type(module).__name__})")

        return hook

    modules = [*learner.named_modules(), ("the criterion", criterion)]
    hooks = [module.register_forward_hook(look(name)) for name, module in modules]
    try:
        with torch.no_grad():
            criterion(learner(batch))
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


class NonFinite:
    """Ends training when so many updates in a row had to be skipped, with the reason."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.streak = trainer, torch.zeros((), device=trainer.world.device)

    def __call__(self, step: Step) -> None:
        self.streak = (self.streak + 1) * step.outcome.skipped
        reads = self.streak.device.type == "cpu" or step.update % STREAK == 0  # else it waits
        if reads and self.streak >= STREAK:
            raise ToolkitError(self.diagnosis(step))

    def diagnosis(self, step: Step) -> str:
        trainer = self.trainer
        where = None
        for batch in step.micro_batches:
            with trainer.precision.autocast():
                moved = to_device(batch, trainer.world.device)
                where = where or first_non_finite(trainer.learner, trainer.criterion, moved)
        return (
            f"loss and gradient must be finite, but were not in {STREAK} updates in a row up to "
            f"update {step.update} (epoch {step.epoch}); the first value that is not: "
            f"{where or 'a gradient, while the forward pass is finite'}. "
            f"Lower --lr, lengthen --warmup-updates, or use --precision fp32."
        )
