"""Optimizers implemented here, with torch's foreach operations on lists: LAMB and Adafactor.

LAMB scales Adam's step to the norm of each parameter, for very large batches. Adafactor is Adam
with a second moment factored into rows and columns, at little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_optimizer
from toolkit.config.declared import ADVANCED, PositiveFloat, Rate
from toolkit.distributed.data_parallel import is_sharded_tensor, to_local
from toolkit.optim.adam import AdamConfig, EagerOptimizer
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    ParameterGroup,
    build_parameter_groups,
)

Config = TypeVar("Config", bound=OptimizerConfig)
State = dict[str, Tensor]
Tensors = list[Tensor] | tuple[Tensor, ...]


@dataclass(frozen=True)
class ParameterBatch:
    """Parameters of one group and kind, updated together; if sharded, this rank's rows."""

    parameters: list[Tensor]
    """The learner's parameters; sharded ones stand for the rows of all ranks."""
    p: list[Tensor]
    g: list[Tensor]
    """Gradients of `p`."""
    states: list[State]

    def state(self, name: str) -> list[Tensor]:
        """One tensor of every state."""
        return [state[name] for state in self.states]

    def by_update_count(self, function: Callable[[Any], Any]) -> Any:
        """f(t) of each parameter, t the number of its updates, including this one; on a GPU, where
        reading t would wait for the device, f is given a tensor of all t.
        """
        steps = self.state("step")
        if steps[0].device.type == "cpu":
            return [function(float(t)) for t in steps]
        return list(function(torch.stack(steps)).unbind())


class ForeachOptimizer(EagerOptimizer, Generic[Config]):
    """A subclass defines a parameter's initial state and the update of a list of parameters.

    `step` in a state counts its updates, on the parameter's device, without those skipped.
    """

    def __init__(self, c: Config, parameters: Iterable[NamedParameter | ParameterGroup]) -> None:
        """Of named parameters, or of groups of them."""
        given: list[Any] = list(parameters)
        grouped = bool(given) and isinstance(given[0], dict)
        super().__init__(given if grouped else build_parameter_groups(given, c), {"lr": c.lr})
        self.c = c

    def init_state(self, p: Tensor) -> State:
        """The state of a parameter before its first update."""
        raise NotImplementedError

    def update_batch(self, group: ParameterGroup, batch: ParameterBatch) -> None:
        """Update the parameters of one group and kind in place."""
        raise NotImplementedError

    def batch_key(self, p: Tensor) -> Hashable:
        """Parameters with equal keys are updated together."""
        return ()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        assert closure is None, "the gradients must be there before the step"
        for group in self.param_groups:
            kinds: dict[Hashable, list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    kinds.setdefault((p.device, p.dtype, self.batch_key(p)), []).append(p)
            for parameters in kinds.values():
                gradients = [to_local(p.grad) for p in parameters if p.grad is not None]
                states: list[State] = []
                for p in parameters:
                    state: State = self.state[p]
                    if not state:
                        state |= {"step": torch.zeros((), device=p.device), **self.init_state(p)}
                    state["step"] = state["step"].to(p.device) + 1
                    states.append({name: to_local(value) for name, value in state.items()})
                rows = [to_local(p.detach()) for p in parameters]
                self.update_batch(group, ParameterBatch(parameters, rows, gradients, states))


def tensor_norms(rows: Tensors, parameters: list[Tensor]) -> Float[Tensor, " N"]:
    """Norms of whole tensors, of which `rows` are this rank's rows."""
    norms = torch.stack(list(torch._foreach_norm(rows)))
    sharded = next((p for p in parameters if is_sharded_tensor(p)), None)
    if sharded is None:
        return norms
    squares = norms.square()
    dist.all_reduce(squares, group=sharded.device_mesh.get_group())
    return squares.sqrt()


@register_optimizer("lamb", AdamConfig(lr=2e-3))
class Lamb(ForeachOptimizer[AdamConfig]):
    """p <- p - lr |p| / |r + decay p| (r + decay p), r = m^ / (sqrt(v^) + eps), for each tensor
    (You et al. 2020, algorithm 2, with phi(z) = z).

    Parameters without decay, biases and norms, take Adam's step, as in the authors' code.
    """

    def init_state(self, p: Tensor) -> State:
        return {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}

    def update_batch(self, group: ParameterGroup, batch: ParameterBatch) -> None:
        step = self.direction(batch)
        if group["weight_decay"]:
            torch._foreach_add_(step, batch.p, alpha=group["weight_decay"])
        if not group["no_decay"]:
            norm, of_step = (tensor_norms(it, batch.parameters) for it in (batch.p, step))
            nonzero = (norm > 0) & (of_step > 0)  # else the ratio is 1
            ratios = torch.where(nonzero, norm / torch.where(nonzero, of_step, 1), 1)
            torch._foreach_mul_(step, list(ratios.unbind()))
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
