"""The processes that train together, their collectives, and the device of each.

Ranks exchange tensors and text, never pickled objects. A single process needs no setup.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

import torch
import torch.distributed as dist
from torch import Tensor

from toolkit.common.errors import ToolkitError


class CollectiveTracker:
    """Counts the collectives that the main thread has entered, and names the current one."""

    def __init__(self) -> None:
        self.entered = 0
        self.current = ""
        """The current collective, or the one that raised; empty outside of collectives."""
        self.since = monotonic()

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Mark this rank as waiting for others; it stays marked after an exception."""
        self.entered += 1
        self.current, self.since = name, monotonic()
        yield
        self.current, self.since = "", monotonic()

    @property
    def waited_seconds(self) -> float:
        """Time in the current collective; 0 outside of collectives."""
        since, current = self.since, self.current
        return monotonic() - since if current else 0.0


@dataclass(frozen=True, kw_only=True)
class World:
    """This process among those that train together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    collectives: CollectiveTracker = field(
        default_factory=CollectiveTracker, compare=False, repr=False
    )

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum over ranks, in place; for a host tensor this never waits for the device."""
        if self.size > 1:
            with self.collectives.waiting("a sum over the ranks"):
                dist.all_reduce(values)
        return values

    def all_gather(self, text: str) -> list[str]:
        """Every rank's text, in the order of the ranks, on every rank."""
        if self.size == 1:
            return [text]
        mine = torch.frombuffer(bytearray(text.encode() + b"\n"), dtype=torch.uint8)
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(mine)
        padded = torch.zeros(int(self.all_reduce(lengths).max()), dtype=torch.uint8)
        padded[: len(mine)] = mine
        everyone = [torch.empty_like(padded) for _ in range(self.size)]
        with self.collectives.waiting("a gathering of texts"):
            dist.all_gather(everyone, padded)
        return [
            bytes(row[: int(n) - 1].tolist()).decode()
            for row, n in zip(everyone, lengths, strict=True)
        ]

    def first_text(self, text: str) -> str:
        """The first text that is not empty, by rank, on every rank; empty if all are."""
        return next(filter(None, self.all_gather(text)), "")

    def broadcast(self, text: str) -> str:
        """The main rank's text, on every rank."""
        return self.all_gather(text)[0]


UNTESTED = ("mps", "xpu")
"""Accelerators that no test has run on; auto does not choose them."""
logger = logging.getLogger(__name__)


def select_device(name: str, local_rank: int = 0) -> torch.device:
    """The device of this process for auto, cpu, cuda, mps or xpu."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    present = found.type if found else "cpu"
    if name == "auto":
        name = "cpu" if present in UNTESTED else present
    if name == "cpu":
        return torch.device("cpu")
    if name != present:
        raise ToolkitError(
            f"device must be one of this machine, but is {name!r} and torch finds no such device. "
            f"Use --device cpu or auto, or install a build of torch with {name}."
        )
    count = torch.accelerator.device_count()
    if local_rank >= count:
        raise ToolkitError(
            f"each process must have its own {name} device, but LOCAL_RANK is {local_rank} and "
            f"there are {count}. Start fewer with torchrun --nproc-per-node."
        )
    return torch.device(name, local_rank)


def configure_backend(device: torch.device) -> None:
    """Process-wide settings of the device's backend: without cuDNN's attention, which makes a plan
    for each new shape, and with deterministic convolutions. What an untested accelerator does not
    implement runs on the CPU, with a warning of torch.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
    if device.type in UNTESTED:
        logger.warning(
            "No test of the toolkit has run on %s: compare a short run with --device cpu first.",
            device.type,
        )


def set_tf32(enabled: bool) -> None:
    """Whether CUDA rounds the operands of fp32 products and convolutions to TF32's 10 bits; torch's
    default rounds those of convolutions only.
    """
    mode = "tf32" if enabled else "ieee"
    torch.backends.cuda.matmul.fp32_precision = mode
    torch.backends.cudnn.conv.fp32_precision = mode  # type: ignore[attr-defined]
    torch.backends.cudnn.rnn.fp32_precision = mode  # type: ignore[attr-defined]


def gpu_name(device: torch.device) -> str:
    """Name of a GPU; type of another accelerator."""
    if device.type in ("cuda", "xpu"):
        return str(torch.get_device_module(device).get_device_name(device))
    return device.type


def seed_rng(seed: int, device: torch.device) -> None:
    """Seed the default generators that a learner on this device draws from. torch.manual_seed takes
    a stack trace for every device type, which costs more than the rest of an update's overhead.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def synchronize(device: torch.device) -> None:
    """Wait until an accelerator has done what it was asked for; a CPU has done it already."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
