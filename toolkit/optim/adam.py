"""Adam with and without decoupled weight decay, in torch's fused form.

An optimizer is registered as `build(config, named_parameters) -> torch.optim.Optimizer`; its
config has a field `lr`, the peak that the schedule's factor multiplies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from toolkit.common.registry import register_optimizer
from toolkit.config.declared import PositiveFloat, Rate
from toolkit.optim.eager import make_eager
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
