"""Stop training after a streak of non-finite gradients, and name the layer they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from toolkit.common.errors import ToolkitError
from toolkit.distributed import World
from toolkit.distributed.sharded_tensors import is_sharded, to_local
from toolkit.tasks.batch import Batch
from toolkit.training.gradient import GradientAccumulator
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

MAX_STREAK = 10
"""Consecutive updates without a finite gradient after which training ends."""
MIN_LOSS_SCALE = 1e-4
"""fp16 loss scale below which training ends, as in fairseq."""


def collect_tensors(value: object) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return [tensor for part in value for tensor in collect_tensors(part)]
    return []


def is_finite(value: object) -> bool:
    """Whether all numbers on this rank are finite."""
    return all(
        bool(to_local(t).isfinite().all()) for t in collect_tensors(value) if t.is_floating_point()
    )


def find_non_finite_parameter(learner: nn.Module) -> str:
    """The first parameter that is not finite; empty if all are."""
    return next(
        (f"the parameter {n}" for n, p in learner.named_parameters() if not is_finite(p)), ""
    )


class NonFiniteTracer:
    """Hooks on one forward and backward pass; `findings` lists non-finite values in order."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.hooks: list[RemovableHandle] = []

    def attach(self, learner: nn.Module, criterion: nn.Module) -> None:
        for name, module in [*learner.named_modules(), ("the criterion", criterion)]:
            what = f"{name or 'the learner'} ({type(module).__name__})"
            self.hooks.append(module.register_forward_hook(self.make_forward_hook(what)))
        for name, p in learner.named_parameters():
            if p.requires_grad:
                self.hooks.append(
                    p.register_hook(self.make_gradient_hook(f"the gradient of {name}"))
                )

    def make_forward_hook(self, what: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, inputs: object, outputs: object) -> None:
            if not is_finite(outputs):
                self.findings.append(f"the output of {what}")
            for output in collect_tensors(outputs):
                if output.requires_grad:
                    output.register_hook(
                        self.make_gradient_hook(f"the gradient at the output of {what}")
                    )

        return hook

    def make_gradient_hook(self, what: str) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            if not is_finite(gradient):
                self.findings.append(what)

        return hook

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()


def find_first_non_finite(
    accumulator: GradientAccumulator, batch: Batch, weights: Mapping[str, float]
) -> str:
    """The first layer of a pass whose output, or output gradient, is not finite."""
    tracer, learner = NonFiniteTracer(), accumulator.learner
    tracer.attach(learner, accumulator.criterion)
    scale = accumulator.precision.loss_scale
    try:
        factors = accumulator.loss_factors(weights)
        loss, _ = accumulator.compute_loss(learner, accumulator.to_device(batch), factors)
        backward_for_hooks(loss * scale.scale if scale else loss, learner)
    finally:
        tracer.close()
    return next(iter(tracer.findings), "")


def backward_for_hooks(loss: Tensor, learner: nn.Module) -> None:
    """A backward pass that only runs hooks and exchanges nothing between DDP's ranks."""
    if is_sharded(learner):
        loss.backward()  # sharded parameters exist only during the pass
        learner.zero_grad()
    else:
        learned = [p for p in learner.parameters() if p.requires_grad]
        torch.autograd.grad(loss, learned, allow_unused=True)


def diagnose_non_finite(
    accumulator: GradientAccumulator, batches: Sequence[Batch], weights: Mapping[str, float]
) -> str:
    """The first non-finite value, and its rank; all ranks must call it."""
    parameter = find_non_finite_parameter(accumulator.learner)
    if finding := first_on_any_rank(accumulator.world, parameter):
        return finding
    traces = [find_first_non_finite(accumulator, batch, weights) for batch in batches]
    return first_on_any_rank(accumulator.world, next(filter(None, traces), ""))


def first_on_any_rank(world: World, finding: str) -> str:
    """The finding of the first rank that has one."""
    where = f" on rank {world.rank}" if finding and world.size > 1 else ""
    return world.first_text(finding + where)


class NonFiniteGuard:
    """Ends training with a diagnosis if the gradient is not finite for too long.

    That is ten consecutive updates; in fp16, where each such update halves the loss scale, it is
    when the scale falls below MIN_LOSS_SCALE.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.streak = trainer, torch.zeros((), device=trainer.world.device)

    def __call__(self, step: Step) -> None:
        self.streak = (self.streak + 1) * step.outcome.norm.isfinite().logical_not()
        if self.streak.device.type != "cpu" and step.update % MAX_STREAK:
            return  # reading it would wait for the device
        self.trainer.wait_for_device()
        scale, latest = self.trainer.precision.loss_scale, f"{step.update} (epoch {step.epoch})"
        if scale and scale.scale < MIN_LOSS_SCALE:
            self.stop_training(
                step,
                f"the loss scale of fp16 must stay above {MIN_LOSS_SCALE:g}, but is "
                f"{scale.scale:.2g} after update {latest}",
                "bf16 or fp32",
            )
        if not scale and self.streak >= MAX_STREAK:
            self.stop_training(
                step,
                f"loss and gradient must be finite, but were not in {MAX_STREAK} updates in a row "
                f"up to update {latest}",
                "fp32",
            )

    def stop_training(self, step: Step, what: str, precision: str) -> None:
        finding = diagnose_non_finite(self.trainer.accumulator, step.micro_batches, step.weights)
        raise ToolkitError(
            f"{what}; the first value that is not finite: {finding or 'none any more'}. "
            f"Lower --lr, lengthen --warmup-updates, or use --precision {precision}."
        )
