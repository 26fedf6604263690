"""LAMB: Adam's step scaled to the norm of each parameter, for very large batches."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.common.registry import register_optimizer
from toolkit.optim.adam import AdamConfig
from toolkit.optim.foreach import ForeachOptimizer, ParameterBatch, State, Tensors, tensor_norms
from toolkit.optim.parameter_groups import NamedParameter, ParameterGroup, build_parameter_groups


class Lamb(ForeachOptimizer[AdamConfig]):
    """LAMB, with state and step per batch of parameters; `lamb` has the equations."""

    def init_state(self, p: Tensor) -> State:
        return {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}

    def update_batch(self, group: ParameterGroup, batch: ParameterBatch) -> None:
        step = self.direction(batch)
        if group["weight_decay"]:
            torch._foreach_add_(step, batch.p, alpha=group["weight_decay"])
        if not group["no_decay"]:
            norms = (tensor_norms(tensors, batch.parameters) for tensors in (batch.p, step))
            torch._foreach_mul_(step, trust_ratios(*norms))
        torch._foreach_add_(batch.p, step, alpha=-group["lr"])

    def direction(self, batch: ParameterBatch) -> Tensors:
        """m^ / (sqrt(v^) + eps)."""
        c, g, mean, square = self.c, batch.g, batch.state("mean"), batch.state("square")
        torch._foreach_lerp_(mean, g, 1 - c.beta1)
        torch._foreach_mul_(square, c.beta2)
        torch._foreach_addcmul_(square, g, g, 1 - c.beta2)
        root = torch._foreach_sqrt(square)
        if c.bias_correction:
            torch._foreach_div_(root, batch.by_update_count(lambda t: (1 - c.beta2**t) ** 0.5))
        torch._foreach_add_(root, c.eps)
        if c.bias_correction:
            torch._foreach_mul_(root, batch.by_update_count(lambda t: 1 - c.beta1**t))
        return torch._foreach_div(mean, root)


def trust_ratios(p_norms: Float[Tensor, " N"], step_norms: Float[Tensor, " N"]) -> Tensors:
    """|p| / |step| of each parameter; 1 if either norm is zero."""
    nonzero = (p_norms > 0) & (step_norms > 0)
    return list(torch.where(nonzero, p_norms / torch.where(nonzero, step_norms, 1), 1).unbind())


@register_optimizer("lamb", AdamConfig(lr=2e-3))
def lamb(c: AdamConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """p <- p - lr |p| / |r + decay p| (r + decay p), r = m^ / (sqrt(v^) + eps), for each tensor
    (You et al. 2020, algorithm 2, with phi(z) = z).

    Biases and norms take Adam's step, without the ratio, as in the authors' code.
    """
    return Lamb(build_parameter_groups(named_parameters, c), c)
