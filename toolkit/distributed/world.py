"""The processes that train together, and their collectives.

Ranks exchange tensors and text, never pickled objects. A single process needs no setup.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from toolkit.distributed.heartbeat import CollectiveTracker


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

    def barrier(self) -> None:
        """Return when every rank has called it."""
        self.all_reduce(torch.zeros(1))
