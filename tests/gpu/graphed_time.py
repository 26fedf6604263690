"""An estimate of an update's time with CUDA graphs, by the model of `time_model`."""

from __future__ import annotations

from typing import NamedTuple

from tests.gpu.graphed_steps import CapturedRegion, take_graphed_step
from tests.gpu.steps import Case
from tests.gpu.time_model import HOST_SECONDS, TimedCounter
from toolkit.training.cuda_graphs import MAX_TOKENS

HOST_SECONDS_PER_UPDATE = 0.15e-3
HOST_SECONDS_PER_PARAMETER = 1.1e-6
"""Measured on a CPU core with graphs that do nothing: 0.30 ms at 179 parameters, 0.56 at 426."""
REPLAY_SECONDS = 20e-6
"""To launch a graph of a thousand kernels."""


class TimedRegion(TimedCounter, CapturedRegion):
    """What is captured, with its time."""


class GraphedEstimate(NamedTuple):
    """Seconds of one update."""

    gpu: float
    host: float

    @property
    def seconds(self) -> float:
        return max(self)


def estimate_graphed_update(case: Case) -> GraphedEstimate | None:
    """None for batches that are too large for graphs."""
    copies = 2 if case.task == "mpm" else 1
    if copies * case.shape.sentences * case.shape.length >= MAX_TOKENS:
        return None
    step = take_graphed_step(case, TimedRegion, TimedCounter)
    outside = step.outside
    gpu = sum(region.graphed for region in step.regions) + outside.products + outside.others
    host = HOST_SECONDS_PER_UPDATE + HOST_SECONDS_PER_PARAMETER * step.parameters
    host += HOST_SECONDS["optimizer"] * outside.launches.total()
    return GraphedEstimate(gpu, host + REPLAY_SECONDS * len(step.regions))
