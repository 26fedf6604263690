"""Optimizers of torch in their fused forms: Adam, AdamW, SGD and RMSprop.

An optimizer is registered as `build(config, named_parameters) -> torch.optim.Optimizer`, with a
field `lr` in its config. Methods lack torch's precautions against torch.compile, which import
Dynamo.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from inspect import unwrap
from typing import TypeVar

import torch
from torch.optim import Optimizer

from toolkit.common.registry import register_optimizer
from toolkit.config.declared import ADVANCED, PositiveFloat, Rate
from toolkit.distributed.data_parallel import is_sharded_tensor
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    ParameterGroup,
    build_parameter_groups,
)

INFINITE_STEP = 2.0**40
"""A number of updates t so large that 1 - beta^t is 1, and t + 1 is t in fp32."""


AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


class EagerOptimizer(Optimizer):
    """An optimizer with the undecorated methods of `torch.optim.Optimizer`."""

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)


def make_eager(kind: type[AnyOptimizer]) -> type[AnyOptimizer]:
    """A subclass of an optimizer of torch with its undecorated methods; `step` has no gradients."""
    step = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (EagerOptimizer, kind), {"step": step})


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
    """p <- p - lr (m^ / (sqrt(v^) + eps) + decay p) (Loshchilov & Hutter 2019, algorithm 2), m and
    v running means of g and g^2, which the hat divides by 1 - beta^t (bias correction).
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


@dataclass(frozen=True, kw_only=True)
class SgdConfig(OptimizerConfig):
    """Options of SGD."""

    momentum: Rate = 0.0
    """Momentum: fraction of the previous step kept at each update."""
    nesterov: bool = False
    """Use Nesterov's momentum. Without momentum, it is plain SGD."""


@register_optimizer("sgd", SgdConfig(lr=0.1, weight_decay=0.0))
def sgd(c: SgdConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """b <- mu b + g; p <- p - lr b, or p - lr (g + mu b) with Nesterov's momentum.

    As Sutskever et al. (2013, eq. 1 to 4), with the rate outside of b. Decay is added to g.
    The momentum buffers are created here, at zero, so that the first update may be skipped. Torch's
    fused form does not support sharded parameters.
    """
    named = list(named_parameters)
    optimizer = make_eager(torch.optim.SGD)(
        build_parameter_groups(named, c),
        lr=c.lr,
        momentum=c.momentum,
        nesterov=c.nesterov and c.momentum > 0,
        fused=not any(is_sharded_tensor(p) for _, p in named),
    )
    if c.momentum:
        for p in [p for group in optimizer.param_groups for p in group["params"]]:
            optimizer.state[p] = {"momentum_buffer": torch.zeros_like(p)}
    return optimizer


@dataclass(frozen=True, kw_only=True)
class RmspropConfig(OptimizerConfig):
    """Options of RMSprop."""

    alpha: Rate = 0.99
    """Decay rate of the running mean of squared gradients."""
    eps: PositiveFloat = 1e-8
    """Added to the denominator for numerical stability."""
    momentum: Rate = 0.0
    """Momentum: fraction of the previous step kept at each update."""
    centered: bool = field(default=False, metadata=ADVANCED)
    """Divide by the standard deviation instead of the root mean square."""


@register_optimizer("rmsprop", RmspropConfig(lr=1e-3, weight_decay=0.0))
def rmsprop(c: RmspropConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """v <- a v + (1 - a) g^2; p <- p - lr g / (sqrt(v) + eps) (Tieleman & Hinton 2012), decay added
    to g. Centered, the square of the running mean of g is subtracted from v (Graves 2013).
    """
    return make_eager(torch.optim.RMSprop)(
        build_parameter_groups(named_parameters, c),
        lr=c.lr,
        alpha=c.alpha,
        eps=c.eps,
        momentum=c.momentum,
        centered=c.centered,
        foreach=True,
    )
