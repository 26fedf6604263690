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
from toolkit.data.preprocessing.binarize import PartTask, Report, binarize
from toolkit.data.preprocessing.split_files import weight
from toolkit.data.preprocessing.train_tokenizer import count_words, sample
from toolkit.data.text_files import Piece
from toolkit.data.tokenizers.tokenizer import Codec

POLL_SECONDS = 0.05
STOP = 2
AHEAD = 2
"""Items of a stream for each process that are read before the first of them is needed."""
Given = TypeVar("Given")
Made = TypeVar("Made")
Found = list[tuple[PartTask, dict[str, dict[str, Any]]]]

_progress: Any = None  # in a worker: the counters shared with the parent, bytes and tokens
_codec: dict[Path, Codec] = {}  # in a worker: the codec it has loaded


class Workers:
    """W processes on W cores; parts are handed out one by one, the largest first."""

    def __init__(self, number: int, config: PreprocessConfig) -> None:
        self._number, self._config = number, config
        self._pool: ProcessPoolExecutor | None = None
        self._counters: Any = None

    def __enter__(self) -> Workers:
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
    def alone(self) -> bool:
        """Whether all is done in this process."""
        return self._pool is None

    def sample(self, parts: Sequence[Sequence[Piece]]) -> list[str]:
        """Items to learn pieces from, spread evenly over the text.

        More of them than was asked where no part has enough items for its share to be one.
        """
        size = sum(weight(piece) for part in parts for piece in part)
        wanted = self._config.sentencepiece_megabytes * 1e6
        share = min(1.0, wanted / size) if wanted else 1.0
        while not (found := self._sampled(parts, share)) and share < 1:
            share = min(1.0, 2 * share)
        return found

    def _sampled(self, parts: Sequence[Sequence[Piece]], share: float) -> list[str]:
        config = self._config
        if self._pool is None:
            return [item for part in parts for item in sample(part, config, share)]
        futures = [self._submit(sample, part, config, share) for part in parts]
        return [item for items in self._results(futures) for item in items]

    def count_words(self, parts: Sequence[Sequence[Piece]]) -> Iterator[Mapping[str, int]]:
        """How often each word comes in each part."""
        if self._pool is None:
            return (count_words(part, self._config) for part in parts)
        futures = [self._submit(count_words, part, self._config) for part in parts]
        return iter(self._results(futures))

    def binarize(self, tasks: Sequence[PartTask], folder: Path, report: Report) -> Found:
        """Every task's result, in the order of the tasks."""
        config = self._config
        if self._pool is None:
            codec = Codec.load(folder)
            return [(task, binarize(task, config, codec, folder, report)) for task in tasks]
        order = sorted(tasks, key=lambda task: -sum(map(weight, task.pieces)))
        futures = [self._submit(_binarize, task, config, folder) for task in order]
        self._watch(futures, report)
        results = dict(
            zip(((t.split, t.number) for t in order), self._results(futures), strict=True)
        )
        return [(task, results[task.split, task.number]) for task in tasks]

    def each(self, function: Callable[[Given], Made], items: Sequence[Given]) -> list[Made]:
        """What a function makes of every item, in their order."""
        if self._pool is None:
            return [function(item) for item in items]
        return self._results([self._submit(function, item) for item in items])

    def stream(
        self, function: Callable[[Given], Made], items: Iterable[Given]
    ) -> Iterator[tuple[Given, Made]]:
        """Every item with what the function makes of it, in their order; few are held at a time."""
        if self._pool is None:
            yield from ((item, function(item)) for item in items)
            return
        given = ((item, self._submit(function, item)) for item in items)
        waiting = deque(islice(given, AHEAD * self._number))
        try:
            while waiting:
                item, future = waiting.popleft()
                found = self._results([future])[0]
                waiting.extend(islice(given, 1))
                yield item, found
        finally:
            for _, future in waiting:
                future.cancel()

    def _watch(self, futures: Sequence[Future[Any]], report: Report) -> None:
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
        with _told():
            return self._pool.submit(function, *arguments)

    def _results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        try:
            with _told():
                return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def _told() -> Iterator[None]:
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
    return binarize(task, config, codec_of(folder), folder, _count)


def codec_of(folder: Path) -> Codec:
    """In a worker: the folder's codec, loaded once."""
    if folder not in _codec:
        _codec[folder] = Codec.load(folder)
    return _codec[folder]
