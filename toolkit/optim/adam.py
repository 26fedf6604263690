"""Adam with and without decoupled weight decay, in torch's fused form, and LAMB.

An optimizer is registered as `build(config, named_parameters) -> torch.optim.Optimizer`; its
config has a field `lr`, the peak that the schedule's factor multiplies. LAMB scales Adam's step to
the norm of each parameter, for very large batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.common.registry import register_optimizer
from toolkit.config.declared import PositiveFloat, Rate
from toolkit.optim.foreach import (
    ForeachOptimizer,
    ParameterBatch,
    State,
    Tensors,
    make_eager,
    tensor_norms,
)
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    ParameterGroup,
    build_parameter_groups,
)

INFINITE_STEP = 2.0**40
"""A number of updates t so large that 1 - beta^t is 1, and t + 1 is t in fp32."""


@dataclass(frozen=True, kw_only=True)
class AdamConfig(OptimizerConfig):
    """Options of Adam, shared by the optimizers derived from it."""

    beta1: Rate = 0.9
    """Decay rate of the running mean of gradients."""
    beta2: Rate = 0.999
    """Decay rate of the running mean of squared gradients."""
    eps: PositiveFloat = 1e-6
    """Added to the denominator for numerical stability."""
    bias_correction: bool = True
    """Divide the means by 1 - beta^t, which corrects for their start at zero. The original BERT
    does not. A resumed run keeps its setting."""


@register_optimizer("adamw", AdamConfig())
def adamw(c: AdamConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """p <- p - lr (m^ / (sqrt(v^) + eps) + decay p) (Loshchilov & Hutter 2019, algorithm 2).

    m and v are running means of g and g^2; the hat divides by 1 - beta^t (bias correction).
    """
    return build_adam(torch.optim.AdamW, c, build_parameter_groups(named_parameters, c))


@register_optimizer("adam", AdamConfig(weight_decay=0.0))
def adam(c: AdamConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """p <- p - lr m^ / (sqrt(v^) + eps) (Kingma & Ba 2015, algorithm 1); decay is added to g."""
    return build_adam(torch.optim.Adam, c, build_parameter_groups(named_parameters, c))


def build_adam(
    kind: type[torch.optim.Adam], c: AdamConfig, groups: list[ParameterGroup]
) -> torch.optim.Adam:
    """Torch's optimizer; without bias correction, as if after infinitely many updates."""
    optimizer = make_eager(kind)(groups, lr=c.lr, betas=(c.beta1, c.beta2), eps=c.eps, fused=True)
    if not c.bias_correction:
        for p in [p for group in optimizer.param_groups for p in group["params"]]:
            optimizer.state[p] = {
                "step": torch.tensor(INFINITE_STEP, device=p.device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }
    return optimizer


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
