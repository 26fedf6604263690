"""A check that the ranks' copies of the learner are equal, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.distributed.sharded_tensors import is_sharded_tensor
from toolkit.training.step import Step
from toolkit.training.trainer import Trainer

TOLERANCE = 1e-6
"""Relative difference of gradient norms that counts as rounding, as in fairseq."""
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes of a number -> integer type of the same size."""


class RankConsistencyCheck:
    """Ends training if a rank's parameters or gradient norm differ from those of the others."""

    def __init__(self, trainer: Trainer, interval: int) -> None:
        self.world, self.interval = trainer.world, interval
        self.replicated = {
            name: p for name, p in trainer.learner.named_parameters() if not is_sharded_tensor(p)
        }
        """Parameters that every rank holds completely; sharded ones have no copies to compare."""

    def __call__(self, step: Step) -> None:
        if self.interval and self.world.size > 1 and step.update % self.interval == 0:
            self.check(step)

    def check(self, step: Step) -> None:
        sums = [sum_bits(p.detach()) for p in self.replicated.values()]
        norm = step.outcome.norm.double().reshape(1).view(torch.int64)[0]
        mine = torch.stack([norm, *sums]).cpu()
        rows = torch.zeros(self.world.size, len(mine), dtype=torch.int64)
        rows[self.world.rank] = mine
        norms, parameters = self.world.all_reduce(rows).split([1, len(sums)], dim=1)
        names = list(self.replicated)
        odd = minority_ranks(parameters)
        if odd:
            right = parameters[next(r for r in range(len(rows)) if r not in odd)]
            first = names[int((parameters[odd[0]] != right).nonzero()[0])]
            raise ToolkitError(divergence_message("parameters", odd, step, f", first in {first}"))
        odd = ranks_with_other_norm(norms.contiguous().view(torch.float64)[:, 0].tolist())
        if odd:
            raise ToolkitError(divergence_message("gradient norm", odd, step, ""))


def sum_bits(p: Tensor) -> Int[Tensor, ""]:
    """The sum of a tensor's bits as integers; different sums mean different tensors."""
    return p.contiguous().view(BITS[p.element_size()]).sum(dtype=torch.int64)


def minority_ranks(rows: Int[Tensor, "R P"]) -> list[int]:
    """The ranks whose row is not the most frequent one (the first of equally frequent ones)."""
    texts = [str(row) for row in rows.tolist()]
    usual = Counter(texts).most_common(1)[0][0]
    return [rank for rank, text in enumerate(texts) if text != usual]


def ranks_with_other_norm(norms: Sequence[float]) -> list[int]:
    """The ranks whose norm differs from the median by more than rounding; NaN equals NaN."""
    norm = torch.tensor(norms, dtype=torch.float64)
    middle = norm.sort().values[(len(norm) - 1) // 2]
    same = norm.isclose(middle, rtol=TOLERANCE, atol=0.0, equal_nan=True)
    return (~same).nonzero()[:, 0].tolist()


def divergence_message(what: str, ranks: Sequence[int], step: Step, where: str) -> str:
    """The message about ranks whose copy differs from the others."""
    listed = ", ".join(map(str, ranks))
    return (
        f"all ranks must have the same {what}, but after update {step.update} (epoch {step.epoch}) "
        f"rank {listed} differs from the others{where}. Its memory, GPU or network may be faulty; "
        f"start again from the last checkpoint on another machine."
    )
