"""What all sections share: the device, the time that is left, and clocks."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from harness import Update, alternate, seconds
from torch import Tensor
from torch.utils._pytree import tree_map_only

Row = dict[str, Any]
"""One line of a section's table; values are text, numbers, truth values or None."""
T = TypeVar("T")
MIN_ROUNDS, MAX_ROUNDS = 3, 15
ROUND_SECONDS, MAX_UPDATES = 0.15, 20
"""Updates of a program in a row, so that the GPU is waited for once per round."""


@dataclass
class Context:
    device: torch.device
    smoke: bool
    """Everything tiny and once: the numbers mean nothing."""
    deadline: float = 0.0
    """Of the current section, by `time.perf_counter`."""
    groups: int | None = None
    """How many groups of the section `speed` run, from the first; None for all."""

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.perf_counter())

    def pick(self, full: T, tiny: T) -> T:
        return tiny if self.smoke else full

    def pin(self, batch: T) -> T:
        """The batch in pinned memory of the host, from which the trainer copies it to a GPU."""
        pinned: T = tree_map_only(Tensor, Tensor.pin_memory, batch) if self.on_gpu else batch
        return pinned

    def synchronize(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def clock(self) -> float:
        """Wall time after the device has finished its work."""
        self.synchronize()
        return time.perf_counter()

    def release(self) -> None:
        """Return the memory of deleted programs to the device."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()

    def reset(self) -> None:
        """Forget compiled programs as well: the next ones are compiled for their own shapes."""
        torch.compiler.reset()
        self.release()

    def medians(self, programs: Mapping[str, Update], available: float) -> dict[str, float]:
        """Median seconds of warm programs that alternate for about this many seconds."""
        once = {name: seconds(program, self.clock) for name, program in programs.items()}
        limit = self.pick(MAX_UPDATES, 1)
        counts = {n: min(limit, max(1, int(ROUND_SECONDS / once[n]))) for n in programs}
        per_round = sum(counts[name] * once[name] for name in programs)
        rounds = min(MAX_ROUNDS, max(MIN_ROUNDS, int(available / per_round)))
        repeated = {name: repeat(program, counts[name]) for name, program in programs.items()}
        found = alternate(repeated, self.pick(rounds, 1), self.pick(1, 0), self.clock)
        return {name: found[name] / counts[name] for name in programs}


def repeat(program: Update, count: int) -> Update:
    def run() -> None:
        for _ in range(count):
            program()

    return run


def describe_error(error: BaseException) -> str:
    """Its class and first line; those of an error of memory, if it led to this one."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, torch.OutOfMemoryError):
        cause = cause.__context__
    error = cause or error
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
