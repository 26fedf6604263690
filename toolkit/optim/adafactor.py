"""Adafactor: Adam with a second moment factored into rows and columns, at little memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_optimizer
from toolkit.config.declared import ADVANCED, PositiveFloat, Rate
from toolkit.distributed.sharded_tensors import is_sharded_tensor
from toolkit.optim.foreach import ForeachOptimizer, ParameterBatch, State, Tensors
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    ParameterGroup,
)

TINY = 1e-30
"""Added to the squared gradients so that their means are positive (the paper's eps_1)."""


@dataclass(frozen=True, kw_only=True)
class AdafactorConfig(OptimizerConfig):
    """Options of Adafactor."""

    relative_step: bool = True
    """Limit the rate to 1 / sqrt(update); with lr 0.01 this is the paper's rate without a schedule.
    If false, the rate is lr times the schedule's factor."""
    scale_parameter: bool = True
    """Multiply the rate by each parameter's root mean square, so that lr is a relative change."""
    scale_floor: PositiveFloat = field(default=1e-3, metadata=ADVANCED)
    """Minimum root mean square of a parameter for scale_parameter."""
    clip_threshold: PositiveFloat = 1.0
    """Maximum root mean square of a parameter's step before the rate; larger ones are clipped."""
    decay_power: PositiveFloat = field(default=0.8, metadata=ADVANCED)
    """The running mean square of update t keeps 1 - t^-power of the old one."""
    beta1: Rate = 0.0
    """Momentum: fraction of the previous step kept; 0 saves the memory for it."""


@register_optimizer("adafactor", AdafactorConfig(lr=1e-2, weight_decay=0.0))
class Adafactor(ForeachOptimizer[AdafactorConfig]):
    """p <- p - max(eps_2, RMS(p)) rho_t u / max(1, RMS(u) / d), u = g / sqrt(v)
    (Shazeer & Stern 2018, algorithms 4 and 5).

    v = row column / mean(row), running means of g^2 that keep 1 - t^-0.8; vectors keep all of v.
    rho_t = min(lr, 1 / sqrt(t)): a warm-up of 10000 updates to lr 0.01 is the paper's 1e-6 t.
    Tensors of more than two axes are factored over their last two. Decay is decoupled, and the
    optional momentum averages the steps, as in the authors' code.
    """

    def __init__(self, c: AdafactorConfig, parameters: Iterable[NamedParameter]) -> None:
        named = list(parameters)
        if any(is_sharded_tensor(p) for _, p in named):
            raise ToolkitError(
                "optimizer adafactor cannot be combined with training.sharding full: it needs the "
                "means of whole rows and columns. Choose --sharding none or another optimizer."
            )
        super().__init__(c, named)

    def batch_key(self, p: Tensor) -> Hashable:
        return p.dim() > 1

    def init_state(self, p: Tensor) -> State:
        """Means over the last axis and the one before it; of a vector, all squares."""
        state = {"mean": torch.zeros_like(p)} if self.c.beta1 else {}
        if p.dim() < 2:
            return {**state, "square": torch.zeros_like(p)}
        row, column = torch.zeros_like(p[..., 0]), torch.zeros_like(p[..., 0, :])
        return {**state, "row": row, "column": column}

    def update_batch(self, group: ParameterGroup, batch: ParameterBatch) -> None:
        p, c = batch.p, self.c
        rates = [group["lr"]] * len(p)  # rho_t
        if c.relative_step:
            rates = batch.by_update_count(partial(relative_rate, group["lr"]))
        step = self.direction(batch)
        factors = root_mean_squares(step)  # max(1, RMS(u) / d)
        torch._foreach_div_(factors, c.clip_threshold)
        torch._foreach_clamp_min_(factors, 1.0)
        torch._foreach_reciprocal_(factors)
        torch._foreach_mul_(factors, rates)
        if c.scale_parameter:
            scales = root_mean_squares(p)  # max(eps_2, RMS(p))
            torch._foreach_clamp_min_(scales, c.scale_floor)
            torch._foreach_mul_(factors, scales)
        torch._foreach_mul_(step, factors)
        if c.beta1:
            mean = batch.state("mean")
            torch._foreach_lerp_(mean, step, 1 - c.beta1)
            step = mean
        if group["weight_decay"]:
            torch._foreach_mul_(p, [1 - group["weight_decay"] * rate for rate in rates])
        torch._foreach_sub_(p, step)

    def direction(self, batch: ParameterBatch) -> Tensors:
        """u = g / sqrt(v), v = row column / mean(row)."""
        g, new_weights = batch.g, batch.by_update_count(lambda t: t**-self.c.decay_power)
        squares = torch._foreach_mul(g, g)
        torch._foreach_add_(squares, TINY)
        if "square" in batch.states[0]:
            mean = batch.state("square")
            torch._foreach_lerp_(mean, squares, new_weights)
            return torch._foreach_div(g, torch._foreach_sqrt(mean))
        rows, columns = batch.state("row"), batch.state("column")
        torch._foreach_lerp_(rows, [square.mean(-1) for square in squares], new_weights)
        torch._foreach_lerp_(columns, [square.mean(-2) for square in squares], new_weights)
        row_factors = [(row / row.mean(-1, keepdim=True)).unsqueeze(-1) for row in rows]
        step = torch._foreach_mul(g, torch._foreach_rsqrt(row_factors))
        torch._foreach_mul_(step, [column.rsqrt().unsqueeze(-2) for column in columns])
        return step


def relative_rate(lr: float, updates: Any) -> Any:
    """min(lr, 1 / sqrt(t)) of a number or a tensor t."""
    rate = updates**-0.5
    return rate.clamp(max=lr) if isinstance(rate, Tensor) else min(lr, rate)


def root_mean_squares(tensors: Tensors) -> Tensors:
    """The root mean square of each tensor."""
    norms = list(torch._foreach_norm(tensors))
    torch._foreach_div_(norms, [tensor.numel() ** 0.5 for tensor in tensors])
    return norms
