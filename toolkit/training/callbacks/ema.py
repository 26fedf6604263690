"""The moving average of the weights over the updates, which often predicts better than they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from toolkit.distributed.fsdp import local_rows, to_full, to_local
from toolkit.training.step import Step


class ExponentialMovingAverage:
    """a <- d a + (1 - d) w behind every update n, d = min(decay, (1 + n) / (10 + n)) with warm-up
    (Polyak & Juditsky 1992; the warm-up is that of TensorFlow's ExponentialMovingAverage).

    It begins at the first weights. An update that was skipped averages the same weights once more.
    """

    def __init__(self, learner: nn.Module, decay: float, *, warmup: bool = True) -> None:
        self.learner, self.decay, self.warmup = learner, decay, warmup
        named = [(name, p) for name, p in learner.named_parameters() if p.requires_grad]
        self.parameters = [to_local(p.detach()) for _, p in named]
        self.averages = {name: to_local(p.detach()).clone() for name, p in named}

    def __call__(self, step: Step) -> None:
        self.update(step.update)

    def update(self, update: int) -> None:
        """Take in the weights behind an update."""
        rate = 1 - self.effective_decay(update)
        torch._foreach_lerp_(list(self.averages.values()), self.parameters, rate)

    def effective_decay(self, update: int) -> float:
        return min(self.decay, (1 + update) / (10 + update)) if self.warmup else self.decay

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Inside, the learner has the average as its weights; no second copy is made."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    @torch.no_grad()
    def swap(self) -> None:
        """Weights to average and average to weights, bit for bit."""
        for weight, average in zip(self.parameters, self.averages.values(), strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)

    def state_dict(self) -> dict[str, Tensor]:
        """What the learner's state would be with the average; every rank must ask.

        What is gathered from ranks is gathered one tensor after the other, into the host's memory.
        """
        with self.swapped_in():
            state = self.learner.state_dict().items()
            return {n: to_full(t).cpu() if t is not to_local(t) else t.clone() for n, t in state}

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        for name, p in self.learner.named_parameters():
            if name in self.averages:
                self.averages[name].copy_(saved[name][local_rows(p)])
