"""The micro-batches of every epoch in order, and those of each rank."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Generic
from zlib import crc32

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.data.loading.batching import (
    Batch,
    BatchPlan,
    BatchPlanner,
    BatchSource,
    CorpusWeights,
    Curriculum,
    FillableSource,
    FilledSource,
    compute_fingerprint,
)
from toolkit.data.loading.prefetch import BatchPrefetcher, Request, collate


def first_index_of_rank(start: int, rank: int, ranks: int) -> int:
    """The rank's first micro-batch from `start` on: rank r takes those with index % ranks == r."""
    return start + (rank - start) % ranks


class BatchLoader(Generic[Batch]):
    """This rank's micro-batches.

    The micro-batches of an epoch are the same on every rank and for any number of workers. With
    equal `ranks` x update_freq, so are the updates.
    """

    def __init__(
        self,
        examples: BatchSource[Batch],
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
        words: IntArray | None = None,
        fills: bool = False,
        curriculum: Curriculum | None = None,
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
            fills=fills,
            curriculum=curriculum,
        )
        options: list[object] = [max_tokens, batch_size, seed, shuffle]
        if corpus_weights:
            options += [corpus_weights.per_epoch, str(corpus_weights.weights)]
        options += ["filled"] * fills
        if curriculum:
            options += [crc32(curriculum.difficulty.tobytes()), curriculum.epochs]
        self.fingerprint = compute_fingerprint(examples.fingerprint, *options)
        """Changes when the micro-batches of any epoch do."""
        self.waited_seconds = 0.0
        """Time that the consumer has waited for batches so far."""
        self._lengths, self._words = examples.lengths, words
        self._examples, self._name = examples, name
        self._prefetcher = BatchPrefetcher(
            self._fill(examples),
            name=name,
            workers=workers,
            timeout_seconds=timeout_seconds,
            pin_memory=pin_memory,
        )

    def _fill(self, examples: BatchSource[Batch]) -> BatchSource[Batch]:
        """What makes batches of one shape, if the planner fills them."""
        if self._planner.shape is None:
            return examples
        if not isinstance(examples, FillableSource):
            raise ToolkitError(
                "data.fill_batches requires --task mlm without --task.adaptive-interval, whose "
                "batches know their selected tokens. Leave one out."
            )
        return FilledSource(examples, self._planner.shape)

    @property
    def filler(self) -> float:
        """Fraction of the tokens that is filler."""
        return self._planner.filler

    def micro_batches(self, epoch: int) -> int:
        """Micro-batches of the epoch over all ranks; every epoch has the same number."""
        return len(self._planner)

    def words(self, epoch: int) -> IntArray | None:
        """Words before each of the epoch's micro-batches and at its end; None if not counted."""
        if self._words is None:
            return None
        plan = self._plan(epoch)
        words = np.add.reduceat(self._words[plan.ids % len(self._words)], plan.starts[:-1])
        return np.cumsum(np.append(0, words[plan.order]))

    def updates(self, epoch: int, *, start: int = 0, update_freq: int = 1) -> Iterator[list[Batch]]:
        """This rank's micro-batches, update by update, after the first `start` micro-batches.

        An update takes ranks x update_freq consecutive micro-batches, rank r those with
        index % ranks == r. In a short last update all ranks get equally many: a rank without one
        gets a batch of weight zero. Skipped micro-batches are not read.
        """
        plan = self._plan(epoch)
        per_update = self._ranks * update_freq
        edges = [(s, min(s + per_update, len(plan))) for s in range(start, len(plan), per_update)]
        batches = self._prefetch(it for edge in edges for it in self._requests(plan, *edge, epoch))
        for first, end in edges:
            yield [next(batches) for _ in range(-(-(end - first) // self._ranks))]

    def evaluation(self) -> Iterator[Batch]:
        """This rank's batches of a pass that sees every example exactly once over all ranks.

        All ranks get equally many batches; those without examples have weight zero.
        """
        plan = self._planner.in_order()
        yield from self._prefetch(self._requests(plan, 0, len(plan), None))

    def evaluation_ids(self, number: int) -> IntArray:
        """The examples of the number-th batch, from 0, that `evaluation` gave this rank."""
        plan, index = self._planner.in_order(), self._rank + number * self._ranks
        return plan.batch(index) if index < len(plan) else np.zeros(0, np.int64)

    def collate(self, ids: IntArray) -> Batch:
        """These examples as a batch for evaluation."""
        return self._prefetcher.collate(ids, None)

    def example_ids(self, epoch: int, micro_batch: int) -> IntArray:
        """The examples of one of the epoch's micro-batches; none after its end."""
        plan = self._plan(epoch)
        return plan.batch(micro_batch) if micro_batch < len(plan) else np.zeros(0, np.int64)

    def split_micro_batch(self, epoch: int, micro_batch: int, count: int) -> list[Batch]:
        """A micro-batch's examples in up to `count` batches, with the same random draws.

        They are not filled, since a part must be smaller than the whole.
        """
        parts = np.array_split(self.example_ids(epoch, micro_batch), count)
        now = epoch + micro_batch / len(self._planner)
        wanted = [ids for ids in parts if len(ids) or ids is parts[0]]
        return [collate(self._examples, self._name, ids, now) for ids in wanted]

    def largest_batches(self, epoch: int) -> list[Batch]:
        """The epoch's batches with the most padded tokens and the most pairs of padded tokens."""
        plan = self._plan(epoch)
        width = np.maximum.reduceat(self._lengths[plan.ids % len(self._lengths)], plan.starts[:-1])
        tokens = np.diff(plan.starts) * width
        largest = {int(tokens.argmax()), int((tokens * width).argmax())}
        batches = (plan.ids[plan.starts[b] : plan.starts[b + 1]] for b in sorted(largest))
        return [self._prefetcher.collate(ids, epoch) for ids in batches]

    def close(self) -> None:
        """Stop the workers; a later pass starts new ones."""
        self._prefetcher.close()

    def _plan(self, epoch: int) -> BatchPlan:
        """The epoch's plan; the latest one is cached for further questions about its batches."""
        if self._latest is None or self._latest[0] != epoch:
            plan = self._planner.epoch(epoch) if self._shuffle else self._planner.in_order()
            self._latest = epoch, plan
        return self._latest[1]

    def _requests(
        self, plan: BatchPlan, start: int, end: int, epoch: int | None
    ) -> Iterator[Request]:
        indices = range(first_index_of_rank(start, self._rank, self._ranks), end, self._ranks)
        for index in indices:
            yield plan.batch(index), None if epoch is None else epoch + index / len(plan)
        for _ in range(-(-(end - start) // self._ranks) - len(indices)):
            yield np.zeros(0, np.int64), epoch

    def _prefetch(self, requests: Iterable[Request]) -> Iterator[Batch]:
        start = time.perf_counter()
        for batch in self._prefetcher.prefetch(requests):
            self.waited_seconds += time.perf_counter() - start
            yield batch
            start = time.perf_counter()
