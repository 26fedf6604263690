"""Recording of GPU work as CUDA graphs, and the tensors that it reads but did not make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from toolkit.training.step import collect_tensors

GraphBody = Callable[[], Tensor]
"""Work on tensors that stay where they are. It neither seeds generators nor waits for the device;
numbers that change are in tensors."""


class GraphRecorder:
    """torch.cuda.CUDAGraph on a side stream, with a memory pool that all graphs share: no graph
    reads what another leaves there, and the tensors that `capture` returns stay allocated.

    Random numbers of a replay start from the default generator's present seed and offset
    (replay_prologue in aten/src/ATen/cuda/CUDAGeneratorImpl.cpp): a body must not seed it. Other
    threads may call CUDA meanwhile, such as the one that pins memory.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, body: GraphBody) -> Sequence[Tensor]:
        """Do the work once to prepare, and once to see what it reads.

        Returns the tensors that it reads, which must live as long as a graph of it. Raises
        RuntimeError if it cannot be captured, since it waits for the device.
        """
        before = torch.cuda.get_sync_debug_mode()
        with self.on_side_stream():
            body()
            torch.cuda.set_sync_debug_mode("error")
            try:
                with ExternalTensors() as seen:
                    body()
            finally:
                torch.cuda.set_sync_debug_mode(before)
        return list(seen.found.values())

    def capture(self, body: GraphBody) -> GraphBody:
        """A function that repeats the work and returns the same tensor, overwritten.

        The work itself is not done; its random numbers follow the generator's state at each replay.
        """
        graph = torch.cuda.CUDAGraph()
        with (
            self.on_side_stream(),
            torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ),
        ):
            out = body()

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        """The side stream, after all work of the current one, which then continues after it."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            torch.cuda.set_stream(current)  # torch.cuda.graph leaves its own if a capture fails
            current.wait_stream(self.stream)


class ExternalTensors(TorchDispatchMode):
    """Collects the tensors that operations read and no operation inside has made.

    A CUDA graph reads them by address: whoever keeps a graph keeps them too.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Tensor] = {}
        """By the address of their storage."""
        self.made: set[int] = set()
        """Addresses of what was made inside; those of tensors that exist already are not reused."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in collect_tensors((args, kwargs)):
            if storage_address(tensor) not in self.made:
                self.found.setdefault(storage_address(tensor), tensor)
        out = func(*args, **(kwargs or {}))
        self.made |= {storage_address(it) for it in collect_tensors(out)} - self.found.keys()
        return out


def storage_address(tensor: Tensor) -> int:
    """The address of a tensor's memory, which its views share."""
    return tensor.untyped_storage().data_ptr()
