"""Where numbers cease to be finite, in the forward pass or on the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.distributed.fsdp import is_sharded, local
from toolkit.training.device import to_device
from toolkit.training.gradient import Gradient
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

STREAK = 10
"""Updates in a row without a finite gradient that end training."""
FLOOR = 1e-4
"""Loss scale of fp16 below which training ends; the same as fairseq's."""


def tensors(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [t for part in value for t in tensors(part)] if isinstance(value, tuple | list) else []


def finite(value: Any) -> bool:
    """Whether all numbers are that this rank has; the others answer for theirs."""
    return all(bool(local(t).isfinite().all()) for t in tensors(value) if t.is_floating_point())


def broken_parameter(learner: nn.Module) -> str:
    """The first parameter that is not finite, in words; empty where all are."""
    return next((f"the parameter {n}" for n, p in learner.named_parameters() if not finite(p)), "")


class Trace:
    """Looks at one forward and backward pass; `found` tells what was not finite, in its order."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.hooks: list[RemovableHandle] = []

    def follow(self, learner: nn.Module, criterion: nn.Module) -> None:
        for name, module in [*learner.named_modules(), ("the criterion", criterion)]:
            what = f"{name or 'the learner'} ({type(module).__name__})"
            self.hooks.append(module.register_forward_hook(self.look(what)))
        for name, p in learner.named_parameters():
            if p.requires_grad:
                self.hooks.append(p.register_hook(self.note(f"the gradient of {name}")))

    def look(self, what: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
            if not finite(outputs):
                self.found.append(f"the output of {what}")
            for output in tensors(outputs):
                if output.requires_grad:
                    output.register_hook(self.note(f"the gradient at the output of {what}"))

        return hook

    def note(self, what: str) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            if not finite(gradient):
                self.found.append(what)

        return hook

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()


def first_non_finite(gradient: Gradient, batch: Any, weights: dict[str, float]) -> str:
    """The first layer of a pass whose output, or the gradient there, is not finite, in words."""
    trace, learner, precision = Trace(), gradient.learner, gradient.precision
    trace.follow(learner, gradient.criterion)
    factors, scale = gradient.factors(weights), precision.loss_scale
    try:
        with precision.autocast():
            totals = gradient.criterion(learner(to_device(batch, gradient.world.device)))
        loss = torch.stack([total * factors[name] for name, total in totals.items()]).sum()
        loss = loss * scale.scale if scale else loss
        pass_back(loss, learner)
    finally:
        trace.close()
    return next(iter(trace.found), "")


def pass_back(loss: Tensor, learner: nn.Module) -> None:
    """A backward pass for its hooks alone, which exchanges nothing between DDP's ranks."""
    if is_sharded(learner):
        loss.backward()  # the parameters that the graph knows are there only within the pass
        learner.zero_grad()
    else:
        learned = [p for p in learner.parameters() if p.requires_grad]
        torch.autograd.grad(loss, learned, allow_unused=True)


def diagnosis(gradient: Gradient, batches: Sequence[Any], weights: dict[str, float]) -> str:
    """What is not finite first, and on which rank; all ranks ask alike."""
    found = agreed(gradient.world, broken_parameter(gradient.learner))
    if found:
        return found
    traces = [first_non_finite(gradient, batch, weights) for batch in batches]
    return agreed(gradient.world, next(filter(None, traces), ""))


def agreed(world: World, mine: str) -> str:
    """What the first rank that has found something has found."""
    said = [(rank, text) for rank, text in enumerate(world.gather(mine)) if text]
    if not said:
        return ""
    rank, text = said[0]
    return f"{text} on rank {rank}" if world.size > 1 else text


class NonFinite:
    """Ends training, with the reason, where the gradient is not finite for too long.

    That is ten updates in a row, or in fp16, where each such update halves the loss scale, until
    the scale falls below its floor.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.streak = trainer, torch.zeros((), device=trainer.world.device)

    def __call__(self, step: Step) -> None:
        self.streak = (self.streak + 1) * step.outcome.norm.isfinite().logical_not()
        if self.streak.device.type != "cpu" and step.update % STREAK:
            return  # reading it would wait for the device
        scale = self.trainer.precision.loss_scale
        if scale and scale.scale < FLOOR:
            self.end(
                step,
                f"the loss scale of fp16 must stay above {FLOOR:g}, but is {scale.scale:.2g} after "
                f"update {step.update} (epoch {step.epoch})",
                "bf16 or fp32",
            )
        if not scale and self.streak >= STREAK:
            self.end(
                step,
                f"loss and gradient must be finite, but were not in {STREAK} updates in a row up "
                f"to update {step.update} (epoch {step.epoch})",
                "fp32",
            )

    def end(self, step: Step, what: str, precision: str) -> None:
        where = diagnosis(self.trainer.gradient, step.micro_batches, step.weights)
        raise ToolkitError(
            f"{what}; the first value that is not finite: {where or 'none, by now'}. "
            f"Lower --lr, lengthen --warmup-updates, or use --precision {precision}."
        )
