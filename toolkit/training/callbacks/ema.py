"""Exponential moving average of the weights, which often generalizes better than the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from toolkit.distributed.sharded_tensors import local_rows, to_full, to_local
from toolkit.training.step import Step


class ExponentialMovingAverage:
    """a <- d a + (1 - d) w after every update n, d = min(decay, (1 + n) / (10 + n)) with warm-up
    (Polyak & Juditsky 1992; the warm-up is that of TensorFlow's ExponentialMovingAverage).

    It starts at the initial weights. A skipped update averages the same weights once more.
    """

    def __init__(self, learner: nn.Module, decay: float, *, warmup: bool = True) -> None:
        self.learner, self.decay, self.warmup = learner, decay, warmup
        named = [(name, p) for name, p in learner.named_parameters() if p.requires_grad]
        self.parameters = [to_local(p.detach()) for _, p in named]
        self.averages = {name: to_local(p.detach()).clone() for name, p in named}

    def __call__(self, step: Step) -> None:
        self.update(step.update)

    def update(self, update: int) -> None:
        """Average in the weights after an update."""
        rate = 1 - self.effective_decay(update)
        torch._foreach_lerp_(list(self.averages.values()), self.parameters, rate)

    def effective_decay(self, update: int) -> float:
        return min(self.decay, (1 + update) / (10 + update)) if self.warmup else self.decay

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Swap the average into the learner for the duration of the block."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange weights and averages, bit for bit."""
        for weight, average in zip(self.parameters, self.averages.values(), strict=True):
            saved = weight.clone()
            weight.copy_(average)
            average.copy_(saved)

    def state_dict(self) -> dict[str, Tensor]:
        """The learner's state with the average as its weights; all ranks must call it.

        Sharded tensors are gathered one by one in host memory.
        """
        with self.swapped_in():
            state = self.learner.state_dict().items()
            return {n: to_full(t).cpu() if t is not to_local(t) else t.clone() for n, t in state}

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        for name, p in self.learner.named_parameters():
            if name in self.averages:
                self.averages[name].copy_(saved[name][local_rows(p)])
