"""Steps along the gradient or its sign-like shadow: SGD with momentum, and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_optimizer
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    build_parameter_groups,
    check_fraction,
    check_positive,
)


@dataclass(frozen=True, kw_only=True)
class SgdConfig(OptimizerConfig):
    momentum: float = 0.0
    """Share of the old step kept at each update, 0 to 1."""
    nesterov: bool = False
    """Look one step of the momentum ahead."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("momentum", self.momentum)
        if self.nesterov and not self.momentum:
            raise ToolkitError(
                "optimizer.momentum must be above 0 where optimizer.nesterov is set, but is 0. "
                "Pass --momentum 0.9, or leave --nesterov out."
            )


@register_optimizer("sgd", SgdConfig(lr=0.1, weight_decay=0.0))
def sgd(c: SgdConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """b <- mu b + g; p <- p - lr b, or p - lr (g + mu b) with Nesterov's momentum.

    As Sutskever et al. (2013, eq. 1 to 4), with the rate outside of b. Decay is added to g.
    The momentum begins at zero rather than missing, so that a first update may be skipped. Torch's
    fused form takes no sharded parameters.
    """
    named = list(named_parameters)
    optimizer = torch.optim.SGD(
        build_parameter_groups(named, c),
        lr=c.lr,
        momentum=c.momentum,
        nesterov=c.nesterov,
        fused=not any(isinstance(p, DTensor) for _, p in named),
    )
    for p in [p for group in optimizer.param_groups for p in group["params"]]:
        if c.momentum:
            optimizer.state[p] = {"momentum_buffer": torch.zeros_like(p)}
    return optimizer


@dataclass(frozen=True, kw_only=True)
class RmspropConfig(OptimizerConfig):
    alpha: float = 0.99
    """Share of the old mean square kept at each update, 0 to 1."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    momentum: float = 0.0
    """Share of the old step kept at each update, 0 to 1."""
    centered: bool = False
    """Divide by the deviation in place of the root mean square."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("eps", self.eps)
        check_fraction("alpha", self.alpha)
        check_fraction("momentum", self.momentum)


@register_optimizer("rmsprop", RmspropConfig(lr=1e-3, weight_decay=0.0))
def rmsprop(c: RmspropConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """v <- a v + (1 - a) g^2; p <- p - lr g / (sqrt(v) + eps) (Tieleman & Hinton 2012).

    Decay is added to g. Centred, v is less the square of the running mean of g (Graves 2013).
    """
    return torch.optim.RMSprop(
        build_parameter_groups(named_parameters, c),
        lr=c.lr,
        alpha=c.alpha,
        eps=c.eps,
        momentum=c.momentum,
        centered=c.centered,
        foreach=True,
    )
