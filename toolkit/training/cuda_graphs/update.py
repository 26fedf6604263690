"""Clipping and the optimizer's step as CUDA graphs, and the choice of graphs for a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Adam, AdamW, Optimizer

from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.optim.update import Update
from toolkit.tasks.examples import SHAPE_MULTIPLE
from toolkit.training.cuda_graphs.gradients import (
    GradientBuffers,
    GraphedAccumulator,
    GraphSet,
    Report,
)
from toolkit.training.cuda_graphs.recorder import CudaGraphRecorder, GraphRecorder
from toolkit.training.trainer import ParameterUpdate, Trainer


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


GRAPH_ROW_MULTIPLE = 256


def reason_against_graphs(c: TrainingConfig, world: World) -> str:
    """Why a run with --cuda-graph auto cannot have graphs; empty if it can."""
    if world.device.type != "cuda":
        return f"the device is {world.device.type}"
    if world.size > 1:
        return "several ranks exchange gradients"
    if c.checkpoint_activations:
        return "activation checkpointing sets the generator's state during the backward pass"
    return ""


def choose_row_multiple(c: TrainingConfig, world: World) -> int:
    """Multiple of the number of selected positions, which varies with random masks.

    For 4,096 tokens of which 15 % are masked, 614 +- 23, it is always 768 with graphs.
    """
    graphs = c.cuda_graph == "auto" and not reason_against_graphs(c, world)
    return GRAPH_ROW_MULTIPLE if graphs else SHAPE_MULTIPLE


def enable_cuda_graphs(trainer: Trainer, c: TrainingConfig, report: Report) -> None:
    """Let a trainer use CUDA graphs if the option asks for them and the run can."""
    if c.cuda_graph == "off":
        return
    if reason := reason_against_graphs(c, trainer.world):
        report(f"CUDA graphs: none, since {reason}")
        return
    record_updates(trainer, CudaGraphRecorder(trainer.world.device), report)


def record_updates(trainer: Trainer, recorder: GraphRecorder, report: Report) -> None:
    """Record the passes of small batches and, if its optimizer can, the trainer's updates."""
    graphs = GraphSet(recorder, GradientBuffers(trainer.parameters), report)
    accumulator = GraphedAccumulator(
        trainer.learner,
        trainer.wrapped,
        trainer.criterion,
        world=trainer.world,
        precision=trainer.precision,
        graphs=graphs,
    )
    trainer.accumulator = trainer.accumulate_gradients.accumulator = accumulator
    if can_capture(trainer.optimizer):
        trainer.update_parameters = GraphedUpdate(trainer.clip_and_step, trainer.optimizer, graphs)
