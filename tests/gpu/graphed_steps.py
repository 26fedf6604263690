"""Updates on a fake GPU with graphs: what is captured, and what the host still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from torch import Tensor

from tests.gpu.batches import full_packing, zeros
from tests.gpu.launches import LaunchCounter, calling_function, name_of, tensors
from tests.gpu.steps import Case, build_trainer, fake_device, take_step
from toolkit.models.packing import Packing
from toolkit.training import cuda_graphs
from toolkit.training.cuda_graphs import GraphSet, record_updates
from toolkit.training.graph_recorder import GraphRecorder
from toolkit.training.trainer import Trainer

UPDATES = 3
"""One without graphs, one that captures, one that replays."""


class CapturedRegion(LaunchCounter):
    """Counts what is captured, and lists operations that touch the host or wait for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.on_host: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        involved = [*tensors((args, kwargs)), *tensors(out)]
        if any(t.device.type == "cpu" for t in involved):
            self.on_host.append(f"{name_of(func)} in {calling_function()}")
        return out


class RegionRecorder(GraphRecorder):
    """Keeps what it captures and replays nothing."""

    def __init__(self) -> None:
        self.regions: list[CapturedRegion] = []
        self.replays = 0

    def warm_up(self, body: Callable[[], Tensor]) -> list[Tensor]:
        body()
        return []

    def capture(self, body: Callable[[], Tensor]) -> Callable[[], Tensor]:
        with CapturedRegion() as region:
            out = body()
        self.regions.append(region)

        def replay() -> Tensor:
            self.replays += 1
            return out

        return replay


class GraphedStep(NamedTuple):
    regions: list[CapturedRegion]
    """What the graphs of an update hold."""
    outside: LaunchCounter
    """What the host launches besides them."""


def keep_all(padding: Tensor) -> Packing:
    """As if all tokens were real; the true number is not known of a fake tensor."""
    return full_packing(padding)._replace(sources=zeros(padding.numel()), keeps_padding=True)


@contextmanager
def graphed_trainer(case: Case, recorder: RegionRecorder) -> Iterator[Trainer]:
    def fail(graphs: GraphSet, error: Exception) -> None:
        raise error

    with (
        fake_device(),
        patch.object(cuda_graphs, "keep_padding", keep_all),
        patch.object(cuda_graphs, "pack_padding", full_packing),
        patch.object(GraphSet, "stop", fail),
    ):
        trainer = build_trainer(case)
        record_updates(trainer, recorder, print)
        yield trainer


def take_graphed_step(case: Case) -> GraphedStep:
    """The update that replays."""
    recorder = RegionRecorder()
    with graphed_trainer(case, recorder) as trainer:
        for _ in range(UPDATES):
            recorder.replays = 0
            outside = take_step(trainer, case.task, case.shape)
    assert recorder.replays == len(recorder.regions)
    return GraphedStep(recorder.regions, outside)
