"""Micro-batches in order, prepared ahead of the trainer by other processes if wanted."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from toolkit.common.errors import ToolkitError
from toolkit.data.batching import Plan, Planner, fingerprint_of
from toolkit.data.examples import Examples

Numbers = npt.NDArray[np.int64]
AHEAD = 4  # micro-batches that each worker prepares ahead


class _Order(NamedTuple):
    """What a worker is asked for; no ids stand for an idle rank's batch."""

    ids: Numbers
    epoch: int | None


class _Refusal(NamedTuple):
    """A user's error on its way from a worker to the trainer."""

    message: str


class _Collated(Dataset[Any]):
    """Answers an order with its batch."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples

    def __getitem__(self, order: _Order) -> Any:
        try:
            return self._examples.collate(order.ids, order.epoch)
        except ToolkitError as error:
            return _Refusal(str(error))


class _Orders:
    """The orders of the pass at hand; DataLoader asks for them anew with every pass."""

    def __init__(self) -> None:
        self.make: Callable[[], Iterable[_Order]] = tuple

    def __iter__(self) -> Iterator[_Order]:
        return iter(self.make())


class Loader:
    """This rank's micro-batches.

    The list of an epoch's micro-batches is the same on every rank and for any number of workers;
    at equal `ranks` x update_freq so are the updates.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        max_tokens: int | None,
        batch_size: int | None,
        seed: int,
        rank: int = 0,
        ranks: int = 1,
        workers: int = 0,
        shuffle: bool = True,
        pin_memory: bool = False,
    ) -> None:
        self._rank, self._ranks, self._shuffle = rank, ranks, shuffle
        self._planner = Planner(
            examples.lengths,
            max_tokens=max_tokens,
            batch_size=batch_size,
            seed=seed,
            fingerprint=examples.fingerprint,
        )
        self.examples = len(examples.lengths)
        self.fingerprint = fingerprint_of(
            examples.fingerprint, max_tokens, batch_size, seed, shuffle
        )
        """Changes when the micro-batches of some epoch do."""
        self.waited_seconds = 0.0
        """Time that the consumer has waited for batches so far."""
        self._orders = _Orders()
        self._batches: DataLoader[Any] = DataLoader(
            _Collated(examples),
            batch_size=None,
            collate_fn=_as_it_is,
            sampler=self._orders,
            num_workers=workers,
            prefetch_factor=AHEAD if workers else None,
            persistent_workers=workers > 0,
            worker_init_fn=_leave_signals_to_the_trainer,
            pin_memory=pin_memory,
            generator=torch.Generator(),  # its own, so that the model's is left alone
        )

    def micro_batches(self, epoch: int) -> int:
        """Micro-batches of the epoch over all ranks; every epoch has the same number."""
        return len(self._planner)

    def updates(self, epoch: int, *, start: int = 0, update_freq: int = 1) -> Iterator[list[Any]]:
        """This rank's micro-batches, update by update, beginning behind `start` micro-batches.

        An update takes ranks x update_freq consecutive micro-batches, rank r those with
        index % ranks == r. In a short last update all ranks get equally many: one that has none
        left gets a batch of weight zero. What lies before `start` is not read.
        """
        plan = self._planner.epoch(epoch) if self._shuffle else self._planner.in_order()
        together = self._ranks * update_freq
        edges = [(b, min(b + together, len(plan))) for b in range(start, len(plan), together)]
        batches = self._serve(
            lambda: (order for edge in edges for order in self._share(plan, *edge, epoch))
        )
        for begin, end in edges:
            yield [next(batches) for _ in range(-(-(end - begin) // self._ranks))]

    def evaluation(self) -> Iterator[Any]:
        """This rank's share of a pass that meets every example exactly once over all ranks.

        All ranks get equally many batches; those without examples have weight zero.
        """
        plan = self._planner.in_order()
        yield from self._serve(lambda: self._share(plan, 0, len(plan), None))

    def close(self) -> None:
        """End the workers; a later pass starts new ones."""
        iterator: Any = self._batches._iterator
        if iterator is not None and self._batches.num_workers > 0:
            iterator._shutdown_workers()
        self._batches._iterator = None

    def _share(self, plan: Plan, begin: int, end: int, epoch: int | None) -> Iterator[_Order]:
        first = begin + (self._rank - begin) % self._ranks
        mine = range(first, end, self._ranks)
        yield from (_Order(plan.batch(place), epoch) for place in mine)
        for _ in range(-(-(end - begin) // self._ranks) - len(mine)):
            yield _Order(np.zeros(0, np.int64), epoch)

    def _serve(self, make: Callable[[], Iterable[_Order]]) -> Iterator[Any]:
        self._orders.make = make
        begin = time.perf_counter()
        for batch in _guarded(self._batches):
            self.waited_seconds += time.perf_counter() - begin
            if isinstance(batch, _Refusal):
                raise ToolkitError(batch.message)
            yield batch
            begin = time.perf_counter()


def _as_it_is(batch: Any) -> Any:
    return batch


def _leave_signals_to_the_trainer(worker: int) -> None:
    """Ctrl-C and Slurm signal the whole process group; the trainer still needs its next batches.

    A worker ends when the trainer tells it to, or is gone.
    """
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def _guarded(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches; a worker that was killed becomes an error that says what to do."""
    try:
        yield from batches
    except RuntimeError as error:
        if not re.search(r"DataLoader worker .* (is killed|exited unexpectedly)", str(error)):
            raise
        raise ToolkitError(
            "every data worker must live to the end, but one was killed, most often for want of "
            "memory. Use fewer --num-workers, or 0."
        ) from error
