"""LAMB: Adam's direction, as long as the parameter itself is, for very large batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.common.registry import register_optimizer
from toolkit.optim.adam import AdamConfig
from toolkit.optim.foreach import (
    ForeachOptimizer,
    ParameterBatch,
    State,
    Tensors,
    state_tensors,
    tensor_norms,
    update_counts,
)
from toolkit.optim.parameter_groups import NamedParameter, build_parameter_groups


class Lamb(ForeachOptimizer):
    def __init__(self, parameters: Iterable[dict[str, Any]], c: AdamConfig) -> None:
        super().__init__(parameters, c.lr)
        self.c = c

    def init_state(self, p: Tensor) -> State:
        return {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}

    def update_batch(self, group: dict[str, Any], batch: ParameterBatch) -> None:
        step = self.direction(batch.g, batch.states)
        if group["weight_decay"]:
            torch._foreach_add_(step, batch.p, alpha=group["weight_decay"])
        if not group["spared"]:
            sizes = tensor_norms(batch.p, batch.parameters), tensor_norms(step, batch.parameters)
            torch._foreach_mul_(step, trust_ratios(*sizes))
        torch._foreach_add_(batch.p, step, alpha=-group["lr"])

    def direction(self, g: Tensors, states: list[State]) -> Tensors:
        """m^ / (sqrt(v^) + eps)."""
        c, mean, square = self.c, state_tensors(states, "mean"), state_tensors(states, "square")
        torch._foreach_lerp_(mean, g, 1 - c.beta1)
        torch._foreach_mul_(square, c.beta2)
        torch._foreach_addcmul_(square, g, g, 1 - c.beta2)
        root = torch._foreach_sqrt(square)
        if c.bias_correction:
            torch._foreach_div_(root, [(1 - c.beta2**t) ** 0.5 for t in update_counts(states)])
        torch._foreach_add_(root, c.eps)
        if c.bias_correction:
            torch._foreach_mul_(root, [1 - c.beta1**t for t in update_counts(states)])
        return torch._foreach_div(mean, root)


def trust_ratios(sizes: Float[Tensor, " N"], steps: Float[Tensor, " N"]) -> Tensors:
    """|p| / |step| of each, and 1 where either is zero."""
    some = (sizes > 0) & (steps > 0)
    return list(torch.where(some, sizes / torch.where(some, steps, 1), 1).unbind())


@register_optimizer("lamb", AdamConfig(lr=2e-3))
def lamb(c: AdamConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """p <- p - lr |p| / |r + decay p| (r + decay p), r = m^ / (sqrt(v^) + eps), each tensor by
    itself (You et al. 2020, algorithm 2, with phi(z) = z).

    Biases and norms take Adam's own step, without the ratio, as in the authors' code.
    """
    return Lamb(build_parameter_groups(named_parameters, c), c)
