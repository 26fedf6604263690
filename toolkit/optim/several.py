"""Several optimizers as one: an optimizer is a list of (parameter rule, optimizer)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.optim import Optimizer


class Several(Optimizer):
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
