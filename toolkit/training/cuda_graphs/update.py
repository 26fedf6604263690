"""Clipping and the optimizer's step as CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from toolkit.optim.update import Update
from toolkit.training.cuda_graphs.graph_set import GraphSet
from toolkit.training.trainer import ParameterUpdate


def can_capture(optimizer: Optimizer) -> bool:
    """Whether an optimizer takes learning rates from the device and keeps its states in place."""
    return isinstance(optimizer, Adam | AdamW) and bool(optimizer.defaults.get("fused"))


class GraphedUpdate:
    """Replays updates of gradients that are in buffers; others, and the first, run as they are.

    There is a graph for each set of parameters that have a gradient: the rest keep their values.
    Learning rates are inputs, and so is the mean loss if spikes are skipped.
    """

    def __init__(self, update: ParameterUpdate, optimizer: Optimizer, graphs: GraphSet) -> None:
        self.update, self.optimizer = update, optimizer
        self.graphs, self.buffers = graphs, graphs.buffers
        device = self.buffers.parameters[0].device
        self.rates = [torch.zeros((), device=device) for _ in optimizer.param_groups]
        """Of each parameter group, in fp32 as torch's fused kernels read them."""
        self.loss = torch.zeros((), device=device)

    def __call__(self, loss: Float[Tensor, ""] | None) -> Update:
        present = self.buffers.present()
        if not present or not self.buffers.hold(present) or not self.has_states(present):
            return self.update(loss)
        if present not in self.graphs.updates and not self.try_capture(present, loss is not None):
            return self.update(loss)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
        if loss is not None:
            self.loss.copy_(loss)
        return Update(*self.graphs.updates[present]().clone().unbind())

    def has_states(self, present: tuple[int, ...]) -> bool:
        """Whether the optimizer has made the states of these parameters, outside of any graph."""
        return all(self.optimizer.state.get(self.buffers.parameters[i]) for i in present)

    def try_capture(self, present: tuple[int, ...], takes_loss: bool) -> bool:
        """Without a warm-up, which would change the parameters: earlier updates were one."""
        loss = self.loss if takes_loss else None
        try:
            with self.rates_on_device():
                graph = self.graphs.recorder.capture(lambda: torch.stack(self.update(loss)))
        except Exception as error:
            self.graphs.stop(error)
            return False
        self.graphs.updates[present] = graph
        return True

    @contextmanager
    def rates_on_device(self) -> Iterator[None]:
        """The optimizer reads its learning rates from tensors, and lets itself be captured."""
        groups = self.optimizer.param_groups
        before = [{name: group[name] for name in ("lr", "capturable")} for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            yield
        finally:
            for group, values in zip(groups, before, strict=True):
                group.update(values)
