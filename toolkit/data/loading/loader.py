"""The micro-batches of every epoch in order, and those of each rank, prepared ahead.

Each worker has a pipe to the trainer, in which a thread receives its batches. Thus a worker that
dies closes its pipe, one that hangs is noticed by the time that its next batch takes, and neither
blocks the trainer. Batches travel as arrays: containers limit the shared memory that torch uses for
tensors to 64 MB, and for batches of up to 1 MB a copy takes less time than mapping them.
"""

from __future__ import annotations

import atexit
import multiprocessing
import signal
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any, Generic
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError, first_line, join_first
from toolkit.common.system import known_signals, signal_name
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


def first_index_of_rank(start: int, rank: int, ranks: int) -> int:
    """The rank's first micro-batch from `start` on: rank r takes those with index % ranks == r."""
    return start + (rank - start) % ranks


PREFETCHED_BATCHES = 4  # per worker
IGNORED_SIGNALS = known_signals("SIGINT", "SIGTERM", "SIGUSR1")
SHUTDOWN_SECONDS = 5.0  # wait for a killed worker
Request = tuple[IntArray, int | float | None]
"""The examples of a batch, none for the batch of an idle rank; and the epoch with its elapsed
fraction."""


class ExampleError(RuntimeError):
    """Collating an example failed because of a bug; names the example and its data."""


class Worker(Generic[Batch]):
    """A process that collates; requests and answers are in the same order."""

    def __init__(self, examples: BatchSource[Batch], name: str) -> None:
        self.connection, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(
            target=serve, args=(other, self.connection, examples, name), daemon=True
        )
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.pending: deque[tuple[int, IntArray]] = deque()
        """Number and examples of each request that has not been answered."""
        self.process.start()
        other.close()

    def receive_answers(self, pin_memory: bool) -> None:
        """Put the answers into the queue, in a thread; the last is None."""
        with suppress(EOFError, OSError):
            while True:
                answer = self.connection.recv()
                if not isinstance(answer, Exception):
                    answer = map_parts(answer, np.ndarray, torch.from_numpy)
                    answer = map_parts(answer, Tensor, Tensor.pin_memory) if pin_memory else answer
                self.answers.put(answer)
        self.answers.put(None)


def serve(
    connection: Connection, of_trainer: Connection, examples: BatchSource[Batch], name: str
) -> None:
    """Answer requests until the trainer is gone, which alone handles signals."""
    for signal_number in IGNORED_SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    of_trainer.close()
    torch.set_num_threads(1)
    with suppress(EOFError, OSError):
        while True:
            ids, epoch = connection.recv()
            try:
                answer = map_parts(collate(examples, name, ids, epoch), Tensor, Tensor.numpy)
            except ToolkitError as error:
                answer = ToolkitError(str(error))
            except ExampleError as error:
                answer = ExampleError(f"{error}\n\nIn the data worker:\n{traceback.format_exc()}")
            connection.send(answer)


def map_parts(value: object, kind: type, change: Callable[[Any], object]) -> Any:
    """A batch with its parts of a type changed: tensors, tuples and plain values in a tuple."""
    if isinstance(value, kind):
        return change(value)
    if not isinstance(value, tuple):
        return value
    parts = [map_parts(part, kind, change) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def collate(examples: BatchSource[Batch], name: str, ids: IntArray, epoch: float | None) -> Batch:
    """A batch; raises an ExampleError for a bug, with the first example that also fails alone."""
    try:
        return examples.collate(ids, epoch)
    except ToolkitError:
        raise
    except Exception as error:
        culprit = format_ids(ids, name)
        for number in ids:
            try:
                examples.collate(np.array([number]), epoch)
            except Exception:
                culprit = f"example {number} of {name}"
                break
        raise ExampleError(f"cannot collate {culprit}: {type(error).__name__}: {error}") from error


class BatchPrefetcher(Generic[Batch]):
    """Answers requests in order with batches of `examples`, which errors call `name`.

    A worker that dies, or does not answer for `timeout_seconds`, ends the pass with an error that
    names the examples it was collating. Workers start with the first pass.
    """

    def __init__(
        self,
        examples: BatchSource[Batch],
        *,
        name: str,
        workers: int = 0,
        timeout_seconds: int = 0,
        pin_memory: bool = False,
    ) -> None:
        self._examples, self._name = examples, name
        self._count, self._timeout_seconds = workers, timeout_seconds
        self._pin_memory = pin_memory
        self._next = 0
        """Number of the next request of all passes."""
        self.workers: list[Worker[Batch]] = []
        # Before multiprocessing's own function, which would wait for workers that ignore SIGTERM.
        atexit.register(weakref.finalize(self, kill_all, self.workers))

    def prefetch(self, requests: Iterable[Request]) -> Iterator[Batch]:
        """The batches of these requests, in order."""
        if not self._count:
            for ids, epoch in requests:
                batch = self.collate(ids, epoch)
                yield map_parts(batch, Tensor, Tensor.pin_memory) if self._pin_memory else batch
            return
        if not self.workers:
            self._start_workers()
        requests, expected = iter(requests), self._next
        self._ask(requests, PREFETCHED_BATCHES * self._count)
        while expected < self._next:
            batch = self._receive(expected)
            expected += 1
            self._ask(requests, 1)
            yield batch

    def collate(self, ids: IntArray, epoch: int | float | None = None) -> Batch:
        """One batch, collated in this process; without an epoch, for evaluation."""
        return collate(self._examples, self._name, ids, epoch)

    def close(self) -> None:
        """Stop the workers; a later pass starts new ones."""
        kill_all(self.workers)

    def _start_workers(self) -> None:
        try:
            for _ in range(self._count):
                self.workers.append(Worker(self._examples, self._name))
            for worker in self.workers:  # threads start after the last fork
                arguments = (self._pin_memory,)
                threading.Thread(target=worker.receive_answers, args=arguments, daemon=True).start()
        except (OSError, MemoryError, RuntimeError) as error:  # RuntimeError: no more threads
            self.close()
            reason = error.strerror if isinstance(error, OSError) else first_line(error)
            raise ToolkitError(
                f"cannot start {self._count} data workers: {reason}. Use fewer --num-workers, "
                f"or raise the limits that ulimit -a shows."
            ) from error

    def _ask(self, requests: Iterator[Request], count: int) -> None:
        """Send the next requests, each to the worker whose turn it is."""
        for ids, epoch in islice(requests, count):
            worker = self.workers[self._next % self._count]
            worker.pending.append((self._next, ids))
            self._next += 1
            with suppress(OSError):  # a dead worker is noticed when its answer is due
                worker.connection.send((ids, epoch))

    def _receive(self, expected: int) -> Batch:
        """The answer to a request; those of an earlier pass, which ended early, are dropped."""
        worker = self.workers[expected % self._count]
        while True:
            try:
                answer = worker.answers.get(timeout=self._timeout_seconds or None)
            except Empty:
                raise self._stop(
                    worker,
                    f"a data worker has not answered within data.timeout_seconds "
                    f"({self._timeout_seconds}); it is collating {{work}}. Find out what holds it "
                    f"up (a file system that hangs?), or raise --data.timeout-seconds.",
                ) from None
            if answer is None:
                worker.process.join(SHUTDOWN_SECONDS)
                code = worker.process.exitcode or 0
                end = f"was killed by {signal_name(-code)}"
                raise self._stop(
                    worker,
                    f"a data worker {end if code < 0 else f'exited with code {code}'} while "
                    f"collating {{work}}. Use fewer --num-workers if memory is short, or 0 to see "
                    f"the error itself.",
                )
            number, _ = worker.pending.popleft()
            if number == expected:
                if isinstance(answer, Exception):
                    raise answer
                batch: Batch = answer
                return batch

    def _stop(self, worker: Worker[Batch], message: str) -> ToolkitError:
        """Stop all workers; the error names what this one was collating."""
        work = format_ids(worker.pending[0][1], self._name)
        self.close()
        return ToolkitError(message.format(work=work))


def kill_all(workers: list[Worker[Any]]) -> None:
    """Kill the workers, and empty the list."""
    while workers:
        process = workers.pop().process
        process.kill()
        process.join(SHUTDOWN_SECONDS)


def format_ids(ids: IntArray, name: str) -> str:
    """The first few examples of a batch, and how many more there are."""
    return f"examples {join_first(ids.tolist(), 8)} of {name}"


class BatchLoader(BatchPrefetcher[Batch]):
    """This rank's micro-batches. Those of an epoch are the same on every rank and for any number of
    workers. With equal `ranks` x update_freq, so are the updates.
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
        self.filler, self.waited_seconds = self._planner.filler, 0.0
        """Fraction of the tokens that is filler; time of waiting for batches so far."""
        self._lengths, self._words, self._unfilled = examples.lengths, words, examples
        super().__init__(
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

        An update takes ranks x update_freq of them, rank r those with index % ranks == r. A rank
        without one in a short last update gets a batch of weight zero.
        """
        plan = self._plan(epoch)
        per_update = self._ranks * update_freq
        edges = [(s, min(s + per_update, len(plan))) for s in range(start, len(plan), per_update)]
        batches = self.prefetch(it for edge in edges for it in self._requests(plan, *edge, epoch))
        for first, end in edges:
            yield [next(batches) for _ in range(-(-(end - first) // self._ranks))]

    def evaluation(self) -> Iterator[Batch]:
        """This rank's batches of a pass that sees every example once over all ranks. All ranks get
        equally many batches; those without examples have weight zero.
        """
        plan = self._planner.in_order()
        yield from self.prefetch(self._requests(plan, 0, len(plan), None))

    def evaluation_ids(self, number: int) -> IntArray:
        """The examples of the number-th batch, from 0, that `evaluation` gave this rank."""
        plan, index = self._planner.in_order(), self._rank + number * self._ranks
        return plan.batch(index) if index < len(plan) else np.zeros(0, np.int64)

    def example_ids(self, epoch: int, micro_batch: int) -> IntArray:
        """The examples of one of the epoch's micro-batches; none after its end."""
        plan = self._plan(epoch)
        return plan.batch(micro_batch) if micro_batch < len(plan) else np.zeros(0, np.int64)

    def split_micro_batch(self, epoch: int, micro_batch: int, count: int) -> list[Batch]:
        """A micro-batch's examples in up to `count` batches, with the same draws and no filler."""
        parts = np.array_split(self.example_ids(epoch, micro_batch), count)
        now = epoch + micro_batch / len(self._planner)
        wanted = [ids for ids in parts if len(ids) or ids is parts[0]]
        return [collate(self._unfilled, self._name, ids, now) for ids in wanted]

    def largest_batches(self, epoch: int) -> list[Batch]:
        """The epoch's batches with the most padded tokens and the most pairs of padded tokens."""
        plan = self._plan(epoch)
        width = np.maximum.reduceat(self._lengths[plan.ids % len(self._lengths)], plan.starts[:-1])
        tokens = np.diff(plan.starts) * width
        largest = {int(tokens.argmax()), int((tokens * width).argmax())}
        batches = (plan.ids[plan.starts[b] : plan.starts[b + 1]] for b in sorted(largest))
        return [self.collate(ids, epoch) for ids in batches]

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

    def prefetch(self, requests: Iterable[Request]) -> Iterator[Batch]:
        """The batches of these requests, in order; the time of waiting for them is counted."""
        start = time.perf_counter()
        for batch in super().prefetch(requests):
            self.waited_seconds += time.perf_counter() - start
            yield batch
            start = time.perf_counter()
