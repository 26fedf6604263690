"""The micro-batches of every epoch in order, and each rank's share of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from toolkit.data.loading.batching import BatchPlan, BatchPlanner, compute_fingerprint
from toolkit.data.loading.corpus_weights import CorpusWeights
from toolkit.data.loading.examples import Examples
from toolkit.data.loading.prefetch import BatchPrefetcher, BatchRequest

Numbers = npt.NDArray[np.int64]


def first_index_of_rank(begin: int, rank: int, ranks: int) -> int:
    """The first micro-batch from `begin` on that a rank takes: those with index % ranks == rank."""
    return begin + (rank - begin) % ranks


class BatchLoader:
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
        corpus_weights: CorpusWeights | None = None,
        timeout_seconds: int = 0,
        name: str = "the data",
    ) -> None:
        self._rank, self._ranks, self._shuffle = rank, ranks, shuffle
        self._latest: tuple[int | None, BatchPlan] | None = None
        self._planner = BatchPlanner(
            examples.lengths,
            max_tokens=max_tokens,
            batch_size=batch_size,
            seed=seed,
            fingerprint=examples.fingerprint,
            corpus_weights=corpus_weights,
        )
        options: list[object] = [max_tokens, batch_size, seed, shuffle]
        options += [corpus_weights.per_epoch, str(corpus_weights.weights)] if corpus_weights else []
        self.fingerprint = compute_fingerprint(examples.fingerprint, *options)
        """Changes when the micro-batches of some epoch do."""
        self.waited_seconds = 0.0
        """Time that the consumer has waited for batches so far."""
        self._lengths = examples.lengths
        self._server = BatchPrefetcher(
            examples,
            name=name,
            workers=workers,
            timeout_seconds=timeout_seconds,
            pin_memory=pin_memory,
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
        plan = self._plan(epoch)
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

    def evaluation_ids(self, number: int) -> Numbers:
        """The examples of the batch that `evaluation` gave this rank as its number-th, from 0."""
        plan, place = self._planner.in_order(), self._rank + number * self._ranks
        return plan.batch(place) if place < len(plan) else np.zeros(0, np.int64)

    def collate(self, ids: Numbers) -> Any:
        """Some examples as a batch of an evaluation."""
        return self._server.collate(ids, None)

    def example_ids(self, epoch: int, micro_batch: int) -> Numbers:
        """The examples of one of the epoch's micro-batches; none behind its end."""
        plan = self._plan(epoch)
        return plan.batch(micro_batch) if micro_batch < len(plan) else np.zeros(0, np.int64)

    def split_micro_batch(self, epoch: int, micro_batch: int, count: int) -> list[Any]:
        """A micro-batch's examples in so many batches, with what its collation has drawn."""
        shares = np.array_split(self.example_ids(epoch, micro_batch), count)
        return [self._server.collate(ids, epoch) for ids in shares if len(ids) or ids is shares[0]]

    def largest_batches(self, epoch: int) -> list[Any]:
        """The epoch's batch of most tokens, padding included, and that of most pairs of them."""
        plan = self._plan(epoch)
        width = np.maximum.reduceat(self._lengths[plan.ids % len(self._lengths)], plan.starts[:-1])
        tokens = np.diff(plan.starts) * width
        most = {int(tokens.argmax()), int((tokens * width).argmax())}
        edges = plan.starts
        return [
            self._server.collate(plan.ids[edges[b] : edges[b + 1]], epoch) for b in sorted(most)
        ]

    def close(self) -> None:
        """End the workers; a later pass starts new ones."""
        self._server.close()

    def _plan(self, epoch: int) -> BatchPlan:
        """The epoch's; the latest is kept, since whoever asks about a micro-batch asks again."""
        if self._latest is None or self._latest[0] != epoch:
            plan = self._planner.epoch(epoch) if self._shuffle else self._planner.in_order()
            self._latest = epoch, plan
        return self._latest[1]

    def _share(
        self, plan: BatchPlan, begin: int, end: int, epoch: int | None
    ) -> Iterator[BatchRequest]:
        mine = range(first_index_of_rank(begin, self._rank, self._ranks), end, self._ranks)
        yield from (BatchRequest(plan.batch(place), epoch) for place in mine)
        for _ in range(-(-(end - begin) // self._ranks) - len(mine)):
            yield BatchRequest(np.zeros(0, np.int64), epoch)

    def _serve(self, make: Callable[[], Iterable[BatchRequest]]) -> Iterator[Any]:
        begin = time.perf_counter()
        for batch in self._server.prefetch(make):
            self.waited_seconds += time.perf_counter() - begin
            yield batch
            begin = time.perf_counter()
