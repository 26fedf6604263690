"""How torch.cuda is called to record, by a stand-in for it."""

from __future__ import annotations

from contextlib import contextmanager
from unittest.mock import MagicMock, patch

import pytest
import torch

from toolkit.training.graph_recorder import GraphRecorder


class FakeCuda:
    """The part of torch.cuda that recording uses; notes on which stream a body runs, and how."""

    def __init__(self):
        self.current, self.mode, self.capturing = "main", 0, None
        self.side = MagicMock(name="side stream")
        self.replays = 0

    def state(self):
        return ("side" if self.current is self.side else self.current, self.mode, self.capturing)

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before  # not after an error, like torch.cuda.graph

    @contextmanager
    def graph(self, graph, *, pool, stream, capture_error_mode):
        assert stream is self.side and pool == "pool"
        self.capturing = capture_error_mode
        yield
        self.capturing = None

    def set_stream(self, stream):
        self.current = stream

    def set_sync_debug_mode(self, mode):
        self.mode = mode

    def replay(self):
        self.replays += 1

    def functions(self):
        main = MagicMock(name="main stream")
        self.current = main
        return {
            "Stream": lambda device: self.side,
            "graph_pool_handle": lambda: "pool",
            "CUDAGraph": lambda: self,
            "graph": self.graph,
            "stream": self.stream,
            "current_stream": lambda device: self.current,
            "set_stream": self.set_stream,
            "get_sync_debug_mode": lambda: self.mode,
            "set_sync_debug_mode": self.set_sync_debug_mode,
        }


@pytest.fixture
def cuda():
    fake = FakeCuda()
    with patch.multiple(torch.cuda, **fake.functions()):
        yield fake


@pytest.fixture
def recorder(cuda):
    return GraphRecorder(torch.device("cuda", 0))


def test_warm_up_runs_once_freely_and_once_without_synchronizations(cuda, recorder):
    states, main, x = [], cuda.current, torch.ones(2)

    def body():
        states.append(cuda.state())
        return x + 1

    (found,) = recorder.warm_up(body)
    assert found is x
    assert states == [("side", 0, None), ("side", "error", None)]
    assert cuda.current is main and cuda.mode == 0


def test_capture_runs_once_in_a_graph_of_the_capturing_thread(cuda, recorder):
    states, main, out = [], cuda.current, torch.ones(2)

    def body():
        states.append(cuda.state())
        return out

    replay = recorder.capture(body)
    assert states == [("side", 0, "thread_local")] and cuda.current is main
    assert replay() is out and replay() is out and cuda.replays == 2


@pytest.mark.parametrize("method", ["warm_up", "capture"])
def test_failure_leaves_the_stream_and_the_mode_as_they_were(cuda, recorder, method):
    main = cuda.current

    def body():
        raise RuntimeError("called a synchronizing CUDA operation")

    with pytest.raises(RuntimeError, match="synchronizing"):
        getattr(recorder, method)(body)
    assert cuda.current is main and cuda.mode == 0
