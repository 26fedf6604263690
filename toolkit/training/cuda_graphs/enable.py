"""The choice of CUDA graphs for a training run."""

from __future__ import annotations

from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.tasks.examples import SHAPE_MULTIPLE
from toolkit.training.cuda_graphs.gradient_buffers import GradientBuffers
from toolkit.training.cuda_graphs.gradients import GraphedAccumulator
from toolkit.training.cuda_graphs.graph_set import GraphSet, Report
from toolkit.training.cuda_graphs.recorder import CudaGraphRecorder, GraphRecorder
from toolkit.training.cuda_graphs.update import GraphedUpdate, can_capture
from toolkit.training.trainer import Trainer

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
