"""Gradient norm, clipping and the optimizer's step, without waiting for the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.distributed.fsdp import total_norm as total_norm


class Update(NamedTuple):
    """What became of the gradients; all on the device."""

    norm: Float[Tensor, ""]
    """Norm of the gradient before clipping."""
    clipped: Float[Tensor, ""]
    """1 where it was longer than allowed, else 0."""
    skipped: Float[Tensor, ""]
    """1 where it was not finite, or was refused, and nothing was changed, else 0."""


def collect_gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def clip_and_step(
    optimizer: Optimizer,
    parameters: Sequence[Tensor],
    *,
    clip_norm: float,
    loss_scale: Float[Tensor, ""] | None = None,
    should_skip: Callable[[Float[Tensor, ""]], Float[Tensor, ""]] | None = None,
) -> Update:
    """Step with g / max(1, |g| / clip_norm), or not at all where |g| is not finite.

    The gradients hold g times `loss_scale`. The clipping of Pascanu et al. (2013, algorithm 1).
    `should_skip` is given |g|; if it returns 1 there is no step either.
    """
    scale = 1.0 if loss_scale is None else loss_scale
    norm = total_norm(collect_gradients(parameters)).to(parameters[0].device) / scale
    skipped = norm.isfinite().logical_not().float()
    if should_skip:
        skipped = torch.maximum(skipped, should_skip(norm))
    clipped = norm.gt(clip_norm).float() if clip_norm else torch.zeros_like(norm)
    divisor = scale * torch.where(clipped.bool(), norm / (clip_norm or 1.0), 1.0)
    step_unless_skipped(optimizer, parameters, divisor, skipped)
    return Update(norm, clipped, skipped)


def step_unless_skipped(
    optimizer: Optimizer,
    parameters: Sequence[Tensor],
    divisor: Float[Tensor, ""],
    skipped: Float[Tensor, ""],
) -> None:
    """The optimizer's step with gradients / divisor unless skipped; one pass where it is fused."""
    if optimizer.defaults.get("fused"):
        fused: dict[str, Tensor] = {"grad_scale": divisor, "found_inf": skipped}
        vars(optimizer).update(fused)
        optimizer.step()
        for name in fused:
            delattr(optimizer, name)
    elif not skipped and (found := collect_gradients(parameters)):
        torch._foreach_div_(found, divisor)
        optimizer.step()
