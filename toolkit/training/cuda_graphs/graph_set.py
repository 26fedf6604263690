"""All graphs of a training run, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from toolkit.common.errors import first_line
from toolkit.training.cuda_graphs.gradient_buffers import GradientBuffers
from toolkit.training.cuda_graphs.recorder import GraphRecorder

Report = Callable[[str], None]


class GraphSet:
    """Graphs of passes and of updates. After a failure all are freed, and there are no new ones."""

    def __init__(self, recorder: GraphRecorder, buffers: GradientBuffers, report: Report) -> None:
        self.recorder, self.buffers, self.report = recorder, buffers, report
        self.passes: dict[Hashable, Any] = {}
        """By the signatures of their batches."""
        self.updates: dict[tuple[int, ...], Any] = {}
        """By the indices of the parameters that have a gradient."""
        self.stopped = False

    def stop(self, error: Exception) -> None:
        """Free all graphs, whose pool keeps memory until the last of them is gone."""
        if self.stopped:
            return
        self.stopped = True
        self.passes.clear()
        self.updates.clear()
        self.buffers.release()
        self.report(f"CUDA graphs: none from now on ({type(error).__name__}: {first_line(error)})")
