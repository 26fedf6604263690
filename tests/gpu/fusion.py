"""Layers before and after Inductor fuses their operations: traffic, kernels and estimated time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.gpu.batches import BATCHES
from tests.gpu.inductor import Plan, planning_backend, simulated_gpu
from tests.gpu.steps import DEVICE, Case, build_trainer, fake_device
from tests.gpu.time_model import (
    BYTES_PER_SECOND,
    HOST_SECONDS,
    LAUNCH_SECONDS,
    Estimate,
    TimedCounter,
)
from toolkit.nn.layers import LayerStack
from toolkit.tasks.examples import to_device
from toolkit.training.flop_counter import FORMULAS
from toolkit.training.trainer import Trainer

PRODUCTS = {operation.__name__ for operation in FORMULAS}
"""Operations that Inductor leaves to libraries or to the toolkit."""


class LayerCall(NamedTuple):
    """What a layer is called with in an update."""

    layer: nn.Module
    inputs: tuple[Any, ...]
    layers: int
    """Number of layers that do the same."""


class Fusion(NamedTuple):
    """One layer, forward and backward."""

    eager: TimedCounter
    compiled: Plan
    layers: int


def measure_layers(case: Case, *, fallback_random: bool = False) -> list[Fusion]:
    """The last layer of each stack, which may compute selected tokens only, and one before it."""
    with fake_device(), simulated_gpu(fallback_random=fallback_random):
        trainer = build_trainer(case)
        with trainer.precision.autocast():
            return [
                Fusion(count_eager(call), plan_compiled(call), call.layers)
                for call in list(record_calls(trainer, case))
            ]


def record_calls(trainer: Trainer, case: Case) -> Iterator[LayerCall]:
    """Calls of two layers of each stack in a forward pass."""
    found: dict[nn.Module, tuple[Any, ...]] = {}
    stacks = [module for module in trainer.learner.modules() if isinstance(module, LayerStack)]
    chosen = {layer: count for stack in stacks for layer, count in choose_layers(stack)}
    hooks = [
        layer.register_forward_pre_hook(lambda layer, inputs: found.update({layer: inputs}))
        for layer in chosen
    ]
    batch = BATCHES[case.task](case.shape)
    trainer.learner(to_device(batch, DEVICE, packs=trainer.learner.encoder.uses_packing))
    for hook in hooks:
        hook.remove()
    for layer, inputs in found.items():
        yield LayerCall(layer, tree_map_only(Tensor, cut, inputs), chosen[layer])


def choose_layers(stack: LayerStack) -> list[tuple[nn.Module, int]]:
    *others, last = stack
    return [*([(others[-1], len(others))] if others else []), (last, 1)]


def cut(x: Tensor) -> Tensor:
    """The tensor as the beginning of a graph."""
    return x.detach().requires_grad_(x.requires_grad)


def count_eager(call: LayerCall) -> TimedCounter:
    with TimedCounter() as counter:
        out = call.layer(*call.inputs)
        counter.phase = "backward"
        differentiate(call, out)
    return counter


def plan_compiled(call: LayerCall) -> Plan:
    torch._dynamo.reset()
    plan = Plan([], [])
    compiled = torch.compile(call.layer, backend=planning_backend(plan), dynamic=False)
    differentiate(call, compiled(*call.inputs))
    return plan


def differentiate(call: LayerCall, out: Any) -> None:
    results = [t for t in tree_leaves(out) if isinstance(t, Tensor) and t.requires_grad]
    leaves = [t for t in tree_leaves(call.inputs) if isinstance(t, Tensor) and t.requires_grad]
    leaves += call.layer.parameters()
    torch.autograd.grad(results, leaves, [torch.empty_like(t) for t in results], allow_unused=True)


class Savings(NamedTuple):
    """Seconds that one compiled layer saves; products and attention take their time as before."""

    others: float
    host: float


def estimate_savings(fusion: Fusion) -> Savings:
    """A fused kernel takes the time of its traffic; generated code enqueues it without autograd."""
    eager, kernels = fusion.eager, [*fusion.compiled.forward, *fusion.compiled.backward]
    seconds = [k.bytes / BYTES_PER_SECOND for k in kernels if k.operation not in PRODUCTS]
    return Savings(
        others=eager.others - sum(max(s, LAUNCH_SECONDS) for s in seconds),
        host=eager.launch_seconds - len(kernels) * HOST_SECONDS["backward"],
    )


def subtract_savings(estimate: Estimate, fusions: Iterable[Fusion]) -> Estimate:
    """The estimate of an update whose layers are compiled."""
    for fusion in fusions:
        saved = estimate_savings(fusion)._asdict()
        less = {n: getattr(estimate, n) - fusion.layers * s for n, s in saved.items()}
        estimate = estimate._replace(**less)
    return estimate
