"""Muon: the momentum of a matrix with all its directions made equally long."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_optimizer
from toolkit.config.declared import NonNegativeFloat, PositiveInt, Rate
from toolkit.config.options import ADVANCED
from toolkit.distributed.fsdp import local_rows, shard_like, to_full
from toolkit.optim.adam import AdamConfig, build_adam
from toolkit.optim.foreach import ForeachOptimizer, ParameterBatch, State, state_tensors
from toolkit.optim.parameter_groups import (
    NamedParameter,
    build_parameter_groups,
    is_hidden_matrix,
)


class ChainedOptimizer(Optimizer):
    """Steps each of its parts; groups and state are theirs, kept in one place."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        shared = [group for part in parts for group in part.param_groups]
        super().__init__(shared, {})
        self.parts = list(parts)
        self.param_groups = shared
        for part in parts:
            self.state.update(part.state)
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "the gradients must be there before the step"
        for part in self.parts:
            part.step()


QUINTIC = (3.4445, -4.7750, 2.0315)
"""a, b, c of a x + b x^3 + c x^5, whose repetition moves singular values near 1 fast (Jordan et
al. 2024)."""
TINY = 1e-7
"""Least norm that a momentum is divided by."""


@dataclass(frozen=True, kw_only=True)
class MuonConfig(AdamConfig):
    momentum: Rate = 0.95
    """Decay rate of the running mean of a matrix's gradients."""
    nesterov: bool = True
    """Use Nesterov's momentum."""
    newton_schulz_steps: PositiveInt = field(default=5, metadata=ADVANCED)
    """Newton-Schulz iterations that orthogonalize the momentum."""
    match_adamw_rms: bool = True
    """Scale a matrix's step to the length of AdamW's, so that AdamW's learning rates fit. If false,
    the step is as first published, with rates near 0.02."""
    adamw_lr: NonNegativeFloat | None = None
    """Peak learning rate of all parameters that AdamW updates; by default lr."""


class MatrixMuon(ForeachOptimizer):
    """The part of Muon that moves matrices, those of one shape together."""

    def __init__(self, parameters: Iterable[dict[str, Any]], c: MuonConfig) -> None:
        super().__init__(parameters, c.lr)
        self.c = c

    def batch_key(self, p: Tensor) -> Hashable:
        return tuple(p.shape)

    def init_state(self, p: Tensor) -> State:
        return {"mean": torch.zeros_like(p)}

    def update_batch(self, group: dict[str, Any], batch: ParameterBatch) -> None:
        """Sharded matrices are gathered, since their directions are those of all rows."""
        c, mean = self.c, state_tensors(batch.states, "mean")
        torch._foreach_lerp_(mean, batch.g, 1 - c.momentum)
        ahead = torch._foreach_lerp(batch.g, mean, c.momentum) if c.nesterov else mean
        gathered = [to_full(shard_like(p, x)) for p, x in zip(batch.parameters, ahead, strict=True)]
        steps = orthogonalize(torch.stack(gathered), c.newton_schulz_steps).unbind()
        rows, columns = batch.parameters[0].shape
        size = (
            0.2 * max(rows, columns) ** 0.5 if c.match_adamw_rms else max(1, rows / columns) ** 0.5
        )
        own = [step[local_rows(p)] for p, step in zip(batch.parameters, steps, strict=True)]
        torch._foreach_mul_(batch.p, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(batch.p, own, alpha=-group["lr"] * size)


def orthogonalize(x: Float[Tensor, "N A B"], steps: int) -> Float[Tensor, "N A B"]:
    """About U V^T of each x = U S V^T: x <- a x + (b x x^T + c (x x^T)^2) x, from x / |x|.

    In bf16 on a GPU, which is precise enough (Jordan et al. 2024), and in the given format on a
    CPU, where it is not always fast.
    """
    if x.shape[1] > x.shape[2]:
        return orthogonalize(x.mT, steps).mT
    a, b, c = QUINTIC
    y = x.bfloat16() if x.is_cuda else x
    y = y / y.flatten(1).norm(dim=1).clamp_min(TINY)[:, None, None]
    for _ in range(steps):
        gram = y @ y.mT
        y = torch.baddbmm(y, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return y.to(x.dtype)


@register_optimizer("muon", MuonConfig(lr=1e-3))
def muon(c: MuonConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """m <- mu m + (1 - mu) g; p <- p - lr (s O(m') + decay p), O(U S V^T) = U V^T, for the matrices
    of linear maps in layers (not of those in groups); AdamW for all else (Jordan et al. 2024; Liu
    et al. 2025).

    m' = (1 - mu) g + mu m with Nesterov's momentum, else m; s = 0.2 sqrt(max(rows, columns)).
    """
    named = list(named_parameters)
    slow = c if c.adamw_lr is None else replace(c, lr=c.adamw_lr)
    matrices = [g for g in build_parameter_groups(named, c, matrix=is_hidden_matrix) if g["matrix"]]
    rest = [
        g for g in build_parameter_groups(named, slow, matrix=is_hidden_matrix) if not g["matrix"]
    ]
    if not matrices:
        raise ToolkitError(
            "optimizer muon must find matrices of layers, but the architecture has no parameter "
            "of two axes called layers.0...weight and so on. Choose --optimizer adamw."
        )
    parts: list[Optimizer] = [MatrixMuon(matrices, c)]
    return ChainedOptimizer([*parts, build_adam(torch.optim.AdamW, c, rest)] if rest else parts)
