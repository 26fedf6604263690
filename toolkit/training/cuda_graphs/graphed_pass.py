"""One forward and backward pass as a CUDA graph."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from toolkit.tasks.batch import Batch
from toolkit.training.cuda_graphs.graph_set import GraphSet
from toolkit.training.cuda_graphs.static_batch import StaticBatch
from toolkit.training.device import seed_rng
from toolkit.training.gradient import GradientAccumulator, Losses


class GraphedPass:
    """Forward and backward over a batch at fixed addresses; adds to the gradients' buffers.

    The batch and the loss factors are inputs. The loss scale is a tensor that stays where it is.
    """

    def __init__(
        self, accumulator: GradientAccumulator, graphs: GraphSet, batch: Batch, names: list[str]
    ) -> None:
        device = accumulator.world.device
        self.accumulator, self.buffers = accumulator, graphs.buffers
        self.batch = StaticBatch(batch, device)
        self.factors = {name: torch.ones((), device=device) for name in names}
        self.losses: list[str] = []
        """Objectives in the order of the graph's output."""
        with self.buffers.set_aside():
            self.kept = graphs.recorder.warm_up(self.run_alone)
            self.learned = self.buffers.present()
            """Indices of the parameters that have a gradient."""
        with self.buffers.set_aside():
            self.buffers.attach_unchanged(self.learned)
            self.replay = graphs.recorder.capture(self.run)

    def run_alone(self) -> Tensor:
        """The pass without earlier gradients."""
        self.buffers.remove_gradients()
        return self.run()

    def run(self) -> Tensor:
        losses = self.accumulator.run_pass(self.batch.batch, self.factors)
        self.losses = list(losses)
        return torch.stack(list(losses.values()))

    def __call__(self, batch: Batch, factors: Mapping[str, float], seed: int) -> Losses:
        """Add the gradient of a batch; its summed losses."""
        self.buffers.attach(self.learned)
        self.batch.fill(batch)
        for name, factor in self.factors.items():
            factor.fill_(factors[name])
        seed_rng(seed, self.accumulator.world.device)
        losses = self.replay().clone()  # the next replay overwrites them
        return dict(zip(self.losses, losses.unbind(), strict=True))
