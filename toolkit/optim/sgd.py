"""SGD with momentum, and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch.optim import Optimizer

from toolkit.common.registry import register_optimizer
from toolkit.config.declared import ADVANCED, PositiveFloat, Rate
from toolkit.distributed.sharded_tensors import is_sharded_tensor
from toolkit.optim.foreach import make_eager
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    build_parameter_groups,
)


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
    """v <- a v + (1 - a) g^2; p <- p - lr g / (sqrt(v) + eps) (Tieleman & Hinton 2012).

    Decay is added to g. Centered, the square of the running mean of g is subtracted from v (Graves
    2013).
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
