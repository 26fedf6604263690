"""Adam with and without decoupled decay, in torch's fused form.

An optimizer is registered as `build(config, named_parameters) -> torch.optim.Optimizer`; its
config has a field `lr`, the peak that the schedule's factor multiplies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_optimizer
from toolkit.optim.rules import Named, decayed_and_spared


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    lr: float = 3e-4
    """Peak learning rate."""
    beta1: float = 0.9
    """Share of the old mean kept at each update, 0 to 1."""
    beta2: float = 0.999
    """Share of the old mean square kept at each update, 0 to 1."""
    eps: float = 1e-6
    """Added to the root of the mean square."""
    weight_decay: float = 0.01
    """Decay of weights, per update and unit of learning rate; biases and norms are spared."""

    def __post_init__(self) -> None:
        for name in ("lr", "weight_decay"):
            value = getattr(self, name)
            if value < 0:
                raise ToolkitError(f"optimizer.{name} must not be negative, but is {value}.")
        if self.eps <= 0:
            raise ToolkitError(f"optimizer.eps must be above 0, but is {self.eps}.")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ToolkitError(
                    f"optimizer.{name} must be at least 0 and below 1, but is {value}."
                )


@register_optimizer("adamw", AdamConfig())
def adamw(c: AdamConfig, named_parameters: Iterable[Named]) -> torch.optim.Optimizer:
    """p <- p - lr (m^ / (sqrt(v^) + eps) + decay p) (Loshchilov & Hutter 2019, algorithm 2).

    m and v are running means of g and g^2; the hat divides by 1 - beta^t (bias correction).
    """
    groups = decayed_and_spared(named_parameters, c.weight_decay)
    return torch.optim.AdamW(groups, lr=c.lr, betas=(c.beta1, c.beta2), eps=c.eps, fused=True)


@register_optimizer("adam", AdamConfig(weight_decay=0.0))
def adam(c: AdamConfig, named_parameters: Iterable[Named]) -> torch.optim.Optimizer:
    """p <- p - lr m^ / (sqrt(v^) + eps) (Kingma & Ba 2015, algorithm 1); decay is added to g."""
    groups = decayed_and_spared(named_parameters, c.weight_decay)
    return torch.optim.Adam(groups, lr=c.lr, betas=(c.beta1, c.beta2), eps=c.eps, fused=True)
