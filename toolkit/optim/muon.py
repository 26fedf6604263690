"""Muon: orthogonalized momentum for the matrices of layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_optimizer
from toolkit.config.declared import ADVANCED, AtLeast, Limit, NonNegativeFloat, Rate
from toolkit.distributed.data_parallel import local_rows, shard_like, to_full, to_local
from toolkit.optim.adam import AdamConfig, EagerOptimizer, build_adam
from toolkit.optim.foreach import ForeachOptimizer, ParameterBatch, State
from toolkit.optim.parameter_groups import (
    NamedParameter,
    ParameterGroup,
    build_parameter_groups,
    is_hidden_matrix,
)
from toolkit.optim.update import bf16_is_fast


class ChainedOptimizer(EagerOptimizer):
    """Several optimizers that step together and share their groups and state."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        groups = [group for part in parts for group in part.param_groups]
        super().__init__(groups, {})
        self.parts, self.param_groups = list(parts), groups
        for part in parts:
            self.state.update(part.state)
            part.state = self.state

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "the gradients must be there before the step"
        for part in self.parts:
            part.step()


ITERATIONS = {
    "quintic": [(3.4445, -4.7750, 2.0315)],
    "polar_express": [
        (8.156554524902461, -22.48329292557795, 15.878769915207462),
        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
        (1.875, -1.25, 0.375),
    ],
}
"""a, b, c of a x + b x^3 + c x^5 in each step, the last ones in all others; they soon move singular
values close to 1 (Jordan et al. 2024). Those of polar_express are computed by the method of Amsel
et al. (2025), with another safety factor than theirs, as in modded-nanogpt; the last ones are of
order 3 at 1."""
SAFETY = 1.02
"""Factor of the norm that a momentum is divided by for polar_express, which diverges above 1."""
TINY = 1e-7
"""Minimum norm that a momentum, and root mean square that a row, is divided by."""


@dataclass(frozen=True, kw_only=True)
class MuonConfig(AdamConfig):
    """Options of Muon; those of Adam apply to parameters that are not matrices of layers."""

    momentum: Rate = 0.95
    """Decay rate of the running mean of a matrix's gradients."""
    nesterov: bool = True
    """Use Nesterov's momentum."""
    newton_schulz_steps: Annotated[int, AtLeast(1), Limit(100)] = field(
        default=5, metadata=ADVANCED
    )
    """Newton-Schulz iterations that orthogonalize the momentum."""
    newton_schulz: Literal["quintic", "polar_express"] = field(default="quintic", metadata=ADVANCED)
    """Coefficients of the iterations: quintic, the same in each (Jordan et al. 2024), or
    polar_express, the best in each for a closer result (Amsel et al. 2025)."""
    normuon_beta2: Rate = 0.0
    """NorMuon: decay rate of the running mean square of each row of the step, which the row is
    divided by; 0.95 in the paper, 0 for none (Li et al. 2025)."""
    cautious_decay: bool = False
    """Decay only entries that the step moves toward 0 (Chen et al. 2025), of matrices of layers."""
    match_adamw_rms: bool = True
    """Scale a matrix's step to the length of AdamW's, so that AdamW's learning rates fit. If false,
    the step is as first published, with rates near 0.02."""
    adamw_lr: NonNegativeFloat | None = None
    """Peak learning rate of all parameters that AdamW updates; by default lr."""


class MatrixMuon(ForeachOptimizer[MuonConfig]):
    """Muon for matrices; those of one shape are updated together."""

    def batch_key(self, p: Tensor) -> Hashable:
        return tuple(p.shape)

    def init_state(self, p: Tensor) -> State:
        state = {"mean": torch.zeros_like(p)}
        if self.c.normuon_beta2:
            state["square"] = shard_like(p, torch.zeros_like(to_local(p)[:, :1]))
        return state

    def update_batch(self, group: ParameterGroup, batch: ParameterBatch) -> None:
        """Sharded matrices are gathered: orthogonalization needs all rows."""
        c, mean = self.c, batch.state("mean")
        torch._foreach_lerp_(mean, batch.g, 1 - c.momentum)
        momentum = torch._foreach_lerp(batch.g, mean, c.momentum) if c.nesterov else mean
        full = [to_full(shard_like(p, m)) for p, m in zip(batch.parameters, momentum, strict=True)]
        steps = orthogonalize(torch.stack(full), c.newton_schulz_steps, c.newton_schulz)
        if c.normuon_beta2:
            steps = self.normalize_rows(steps, batch)
        pairs = zip(batch.parameters, steps.unbind(), strict=True)
        local = [step[local_rows(p)] for p, step in pairs]
        kept = 1 - group["lr"] * group["weight_decay"]
        if c.cautious_decay:
            for p, step in zip(batch.p, local, strict=True):
                p.mul_(torch.where(step * p >= 0, kept, 1.0))
        else:
            torch._foreach_mul_(batch.p, kept)
        torch._foreach_add_(batch.p, local, alpha=-group["lr"] * self.scale(full[0]))

    def normalize_rows(
        self, steps: Float[Tensor, "N A B"], batch: ParameterBatch
    ) -> Float[Tensor, "N A B"]:
        """O / sqrt(v), of the norm of O; v is the running mean of the mean square of each row (Li
        et al. 2025, algorithm 1).
        """
        parameters, squares = batch.parameters, batch.state("square")
        means = steps.square().mean(2, keepdim=True)
        local = [mean[local_rows(p)] for p, mean in zip(parameters, means, strict=True)]
        torch._foreach_lerp_(squares, local, 1 - self.c.normuon_beta2)
        full = [to_full(shard_like(p, v)) for p, v in zip(parameters, squares, strict=True)]
        normalized = steps / torch.stack(full).sqrt().clamp_min(TINY)
        norms = [x.flatten(1).norm(dim=1)[:, None, None] for x in (steps, normalized)]
        return normalized * (norms[0] / norms[1].clamp_min(TINY))

    def scale(self, matrix: Float[Tensor, "A B"]) -> float:
        """s of a matrix."""
        rows, columns = matrix.shape
        first, matched = max(1, rows / columns) ** 0.5, 0.2 * max(rows, columns) ** 0.5
        return float(matched if self.c.match_adamw_rms else first)


def orthogonalize(
    x: Float[Tensor, "N A B"], steps: int, iteration: str = "quintic"
) -> Float[Tensor, "N A B"]:
    """About U V^T of each x = U S V^T: x <- a x + (b x x^T + c (x x^T)^2) x, from x / |x|, in bf16
    where that is fast, which is precise enough (Jordan et al. 2024); else in the dtype of x.
    """
    if x.shape[1] > x.shape[2]:
        return orthogonalize(x.mT, steps, iteration).mT
    y = x.bfloat16() if x.is_cuda or bf16_is_fast(x.device) else x
    norm = y.flatten(1).norm(dim=1).clamp_min(TINY)[:, None, None]
    y = y / (norm * SAFETY if iteration == "polar_express" else norm)
    coefficients = ITERATIONS[iteration]
    for step in range(steps):
        a, b, c = coefficients[min(step, len(coefficients) - 1)]
        gram = y @ y.mT
        y = torch.baddbmm(y, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return y.to(x.dtype)


@register_optimizer("muon", MuonConfig(lr=1e-3))
def muon(c: MuonConfig, named_parameters: Iterable[NamedParameter]) -> Optimizer:
    """m <- mu m + (1 - mu) g; p <- p - lr (s O(m') + decay p), O(U S V^T) = U V^T, for the matrices
    of linear maps in layers (grouped ones excepted); AdamW for all other parameters (Jordan et al.
    2024; Liu et al. 2025).

    m' = (1 - mu) g + mu m with Nesterov's momentum, else m; s = 0.2 sqrt(max(rows, columns)).
    Linear maps of one input that are computed as one product are one matrix.
    """
    named = list(named_parameters)
    adamw = c if c.adamw_lr is None else replace(c, lr=c.adamw_lr)
    groups, adamw_groups = (build_parameter_groups(named, x, is_hidden_matrix) for x in (c, adamw))
    matrices = [group for group in groups if group["matrix"]]
    rest = [group for group in adamw_groups if not group["matrix"]]
    if not matrices:
        frozen = sum(is_hidden_matrix(name, p) for name, p in named)
        raise ToolkitError(
            f"optimizer muon requires matrices to train, named layers.0...weight, but {frozen} are "
            f"frozen and there is no other. Choose --optimizer adamw, or freeze fewer layers."
        )
    parts: list[Optimizer] = [MatrixMuon(c, matrices)]
    return ChainedOptimizer([*parts, build_adam(torch.optim.AdamW, adamw, rest)] if rest else parts)
