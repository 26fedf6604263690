"""An update whose micro-batches do not fit into some rank's memory is made in smaller parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Protocol, runtime_checkable

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.random_hash import seed_of
from toolkit.data.loading.loader import first_place
from toolkit.tasks.batch import Batch
from toolkit.training.gradient import Gradient, Losses, Piece
from toolkit.training.step import Place

HALVINGS = 4
"""How often micro-batches are halved before training gives up."""


@runtime_checkable
class Divisible(Protocol):
    """What gives a micro-batch of an epoch once more, in parts."""

    def parts(self, epoch: int, micro_batch: int, count: int) -> list[Batch]: ...


class Halving:
    """The gradient of micro-batches; in halves, quarters, ... where a rank's memory asks for it.

    The normalisers are known before, so that the parts add up to the gradient of the whole, but
    for dropout, which is drawn anew for each part. All ranks take equally many parts.
    """

    def __init__(self, gradient: Gradient, seed: int) -> None:
        self.gradient, self.world, self.seed = gradient, gradient.world, seed
        self.loader: object = None
        """The epoch's data; micro-batches are halved only where it is Divisible."""
        self.parts = 1
        """Into how many the micro-batches of the latest update had to be divided."""
        self.failures: list[str] = []
        """What did not fit on the way there, rank by rank."""

    def __call__(
        self, micro_batches: Sequence[Batch], weights: Mapping[str, float], place: Place
    ) -> Losses:
        self.failures = []
        for halvings in range(HALVINGS + 1):
            self.parts = 2**halvings
            pieces = self.pieces(micro_batches, place)
            losses, failure = self.gradient.attempt(pieces, weights)
            failures = gathered(failure, self.gradient)
            if not failures:
                return losses
            self.gradient.discard()
            self.failures += failures
            if not isinstance(self.loader, Divisible):
                break
        raise ToolkitError(
            f"a micro-batch must fit into memory, but {self.failures[0]} in update "
            f"{place.update + 1}, nor did it in {self.parts} parts. Lower --max-tokens or "
            f"--batch-size and raise --update-freq instead."
        )

    def pieces(self, micro_batches: Sequence[Batch], place: Place) -> list[Piece]:
        """Each micro-batch in as many parts as are asked for, with seeds of their own."""
        found: list[Piece] = []
        rank, ranks = self.world.rank, self.world.size
        numbers = count(first_place(place.consumed, rank, ranks), ranks)
        for number, batch in zip(numbers, micro_batches, strict=False):
            seed = self.seed, place.epoch, number
            if self.parts == 1 or not isinstance(self.loader, Divisible):
                found.append(Piece(batch, seed_of(*seed)))
                continue
            parts = self.loader.parts(place.epoch, number, self.parts)
            found += [Piece(it, seed_of(*seed, self.parts, i)) for i, it in enumerate(parts)]
        return found


def gathered(failure: str, gradient: Gradient) -> list[str]:
    """The failures of all ranks; one small sum where there is none."""
    world = gradient.world
    if world.size > 1 and not world.sum(torch.tensor(float(bool(failure)))):
        return []
    texts = enumerate(world.gather(failure))
    return [f"{text} did not on rank {rank}" for rank, text in texts if text]
