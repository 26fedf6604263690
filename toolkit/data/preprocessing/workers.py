"""Processes that read and binarize parts side by side; with one worker, this process itself."""

from __future__ import annotations

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.data.preprocessing.binarize import PartTask, ProgressCallback, binarize
from toolkit.data.preprocessing.split_files import estimate_bytes
from toolkit.data.preprocessing.train_tokenizer import count_words, sample_items
from toolkit.data.text_files import FileChunk
from toolkit.data.tokenizers.tokenizer import Tokenizer

POLL_SECONDS = 0.05
STOP = 2
PREFETCH = 2
"""Items of a stream for each process that are read before the first of them is needed."""
Given = TypeVar("Given")
Made = TypeVar("Made")
PartResults = list[tuple[PartTask, dict[str, dict[str, Any]]]]

_progress: Any = None  # in a worker: the counters shared with the parent, bytes and tokens
_tokenizer: dict[Path, Tokenizer] = {}  # in a worker: the tokenizer it has loaded


class WorkerPool:
    """W processes on W cores; parts are handed out one by one, the largest first."""

    def __init__(self, number: int, config: PreprocessConfig) -> None:
        self._number, self._config = number, config
        self._pool: ProcessPoolExecutor | None = None
        self._counters: Any = None

    def __enter__(self) -> WorkerPool:
        if self._number > 1:
            method = "fork" if sys.platform == "linux" else "spawn"
            context = multiprocessing.get_context(method)
            self._counters = context.Array("q", 3)  # bytes, tokens, and 1 for stop
            self._pool = ProcessPoolExecutor(
                self._number, context, initializer=_begin, initargs=(self._counters,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._counters[STOP] = error is not None
            self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def in_process(self) -> bool:
        """Whether all is done in this process."""
        return self._pool is None

    def sample(self, parts: Sequence[Sequence[FileChunk]]) -> list[str]:
        """Items to learn pieces from, spread evenly over the text.

        More of them than was asked where no part has enough items for its share to be one.
        """
        size = sum(estimate_bytes(piece) for part in parts for piece in part)
        wanted = self._config.sentencepiece_megabytes * 1e6
        share = min(1.0, wanted / size) if wanted else 1.0
        while not (found := self._sampled(parts, share)) and share < 1:
            share = min(1.0, 2 * share)
        return found

    def _sampled(self, parts: Sequence[Sequence[FileChunk]], share: float) -> list[str]:
        config = self._config
        if self._pool is None:
            return [item for part in parts for item in sample_items(part, config, share)]
        futures = [self._submit(sample_items, part, config, share) for part in parts]
        return [item for items in self._results(futures) for item in items]

    def count_words(self, parts: Sequence[Sequence[FileChunk]]) -> Iterator[Mapping[str, int]]:
        """How often each word comes in each part."""
        if self._pool is None:
            return (count_words(part, self._config) for part in parts)
        futures = [self._submit(count_words, part, self._config) for part in parts]
        return iter(self._results(futures))

    def binarize(
        self, tasks: Sequence[PartTask], folder: Path, report: ProgressCallback
    ) -> PartResults:
        """Every task's result, in the order of the tasks."""
        config = self._config
        if self._pool is None:
            tokenizer = Tokenizer.load(folder)
            return [(task, binarize(task, config, tokenizer, folder, report)) for task in tasks]
        order = sorted(tasks, key=lambda task: -sum(map(estimate_bytes, task.pieces)))
        futures = [self._submit(_binarize, task, config, folder) for task in order]
        self._watch(futures, report)
        results = dict(
            zip(((t.split, t.number) for t in order), self._results(futures), strict=True)
        )
        return [(task, results[task.split, task.number]) for task in tasks]

    def map(self, function: Callable[[Given], Made], items: Sequence[Given]) -> list[Made]:
        """What a function makes of every item, in their order."""
        if self._pool is None:
            return [function(item) for item in items]
        return self._results([self._submit(function, item) for item in items])

    def imap(
        self, function: Callable[[Given], Made], items: Iterable[Given]
    ) -> Iterator[tuple[Given, Made]]:
        """Every item with what the function makes of it, in their order; few are held at a time."""
        if self._pool is None:
            yield from ((item, function(item)) for item in items)
            return
        given = ((item, self._submit(function, item)) for item in items)
        waiting = deque(islice(given, PREFETCH * self._number))
        try:
            while waiting:
                item, future = waiting.popleft()
                found = self._results([future])[0]
                waiting.extend(islice(given, 1))
                yield item, found
        finally:
            for _, future in waiting:
                future.cancel()

    def _watch(self, futures: Sequence[Future[Any]], report: ProgressCallback) -> None:
        """Report progress until all are done or one has failed; then the others stop early."""
        seen = [0, 0]
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, POLL_SECONDS)
            failed = [future for future in done if future.exception()]
            if failed:
                self._counters[STOP] = 1
                self._results(failed)
            now = self._counters[:]
            report(now[0] - seen[0], now[1] - seen[1])
            seen = now

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        assert self._pool is not None, "there are workers"
        with _report_worker_death():
            return self._pool.submit(function, *arguments)

    def _results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        try:
            with _report_worker_death():
                return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def _report_worker_death() -> Iterator[None]:
    """A worker's death, met when its result is asked for or more work is given out."""
    try:
        yield
    except BrokenProcessPool as error:
        raise ToolkitError(
            "every worker must live to the end, but one was killed, most often for want of "
            "memory. Use fewer --workers."
        ) from error


def _begin(counters: Any) -> None:
    global _progress
    _progress = counters


def _count(read_bytes: int, tokens: int) -> None:
    if _progress[STOP]:
        raise InterruptedError("another part has failed")
    with _progress.get_lock():
        _progress[0] += read_bytes
        _progress[1] += tokens


def _binarize(task: PartTask, config: PreprocessConfig, folder: Path) -> dict[str, dict[str, Any]]:
    return binarize(task, config, load_tokenizer(folder), folder, _count)


def load_tokenizer(folder: Path) -> Tokenizer:
    """In a worker: the folder's tokenizer, loaded once."""
    if folder not in _tokenizer:
        _tokenizer[folder] = Tokenizer.load(folder)
    return _tokenizer[folder]
