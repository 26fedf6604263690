"""The length of a run: its number of updates, and criteria and signals that stop it earlier.

SIGTERM, SIGINT and SIGUSR1 stop training at the next update, with a checkpoint. The command then
exits with 128 + the signal's number (143, 130, 138), as shells do. A second signal of the same kind
terminates immediately, unless it arrives within a second.
"""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

import numpy as np

from toolkit.common.arrays import IntArray
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import convert_fields
from toolkit.common.system import REPEAT_SECONDS, known_signals
from toolkit.config.sections import LOG_WORDS, RunConfig, TrainingConfig
from toolkit.distributed import World
from toolkit.training.step import State, Step, TrainingProgress
from toolkit.training.trainer import Trainer

WordsOfEpoch = Callable[[int], IntArray | None]
"""Words before each micro-batch of an epoch and at its end; None if they are not counted."""


def count_total_updates(
    c: TrainingConfig,
    micro_batches: Callable[[int], int],
    world: World,
    progress: TrainingProgress,
    words: WordsOfEpoch = lambda epoch: None,
) -> int:
    """The updates that max_update, max_epoch and max_words allow, whichever is reached first.

    `micro_batches` is their number in an epoch. Updates that are done count as they are.
    """
    if c.max_update is None and c.max_epoch is None and c.word_limit is None:
        raise ToolkitError(
            "Set --max-update, --max-epoch or --max-words: one of them must end the run."
        )
    per_update = world.size * c.micro_batches_per_rank(world.size)
    limits = [] if c.max_update is None else [c.max_update]
    if c.word_limit is not None:
        limits.append(find_update(c.word_limit, "--max-words", words, per_update, progress))
    if c.max_epoch is None:
        return min(limits)
    total, consumed = progress.update, progress.consumed
    for epoch in range(progress.epoch, c.max_epoch + 1):
        left = micro_batches(epoch) - consumed
        total, consumed = total + math.ceil(left / per_update), 0
    return min([total, *limits])


def check_word_marks(
    config: RunConfig,
    total_updates: int,
    words: WordsOfEpoch,
    world: World,
    progress: TrainingProgress,
) -> None:
    """Raise if the run ends before it has seen the words of its last checkpoint."""
    marks, c = config.checkpoint.word_marks, config.training
    if not marks:
        return
    log, per_update = marks == LOG_WORDS, world.size * c.micro_batches_per_rank(world.size)
    wanted = marks[0] if log else marks[-1]
    last = find_update(wanted, "--save-at-words", words, per_update, progress)
    if last > total_updates and not log:
        raise ToolkitError(
            f"checkpoint.save_at_words must be at most the words of the run, but {marks[-1]:,} "
            f"words are reached at update {last:,} of {total_updates:,}. Set --max-words "
            f"{marks[-1]} in place of --max-update and --max-epoch, or leave them out."
        )


def find_update(
    wanted: int, option: str, words: WordsOfEpoch, per_update: int, progress: TrainingProgress
) -> int:
    """The update after which this many words have been seen."""
    update, seen, start = progress.update, progress.words_seen, progress.consumed
    if seen is None:
        raise ToolkitError(
            f"{option} must count words from the first update, but the checkpoint was trained "
            f"without a count. Start another run with --save-dir, or leave the option out."
        )
    for epoch in itertools.count(progress.epoch):
        of_epoch = words(epoch)
        if of_epoch is None or not of_epoch[-1]:
            raise ToolkitError(
                f"{option} requires the number of words, which the data or the task does not "
                f"count. Run toolkit-preprocess --format text again, or leave the option out."
            )
        if seen >= wanted:
            return update
        after = np.append(of_epoch[start + per_update : -1 : per_update], of_epoch[-1])
        after += seen - of_epoch[start]
        if after[-1] >= wanted:
            return update + 1 + int(np.searchsorted(after, wanted))
        update, seen, start = update + len(after), int(after[-1]), 0
    raise AssertionError("epochs have no end")


def count_epochs(
    total_updates: int,
    micro_batches: Callable[[int], int],
    per_update: int,
    progress: TrainingProgress,
) -> float:
    """The epochs that all updates of a run take, the last one in part."""
    update, epoch, consumed = progress.update, progress.epoch, progress.consumed
    while True:
        size = micro_batches(epoch)
        left = math.ceil((size - consumed) / per_update)
        if update + left >= total_updates:
            return epoch - 1 + min(1.0, (consumed + (total_updates - update) * per_update) / size)
        update, epoch, consumed = update + left, epoch + 1, 0


class StoppingCriteria:
    """Stops a run after a maximum time, with validation, saving and the time before resuming, or
    when the learning rate falls to a minimum.
    """

    def __init__(
        self, trainer: Trainer, c: TrainingConfig, clock: Callable[[], float] = monotonic
    ) -> None:
        self.trainer, self.clock = trainer, clock
        self.max_seconds, self.min_lr = c.stop_time_hours * 3600, c.stop_min_lr
        self.started_at = clock()
        self.highest_lr = 0.0
        """Highest learning rate so far; a rate that still rises is not too low."""
        self.last_lr = math.inf
        """Learning rate of the latest update."""

    def __call__(self, step: Step) -> None:
        self.last_lr, self.highest_lr = step.learning_rate, max(self.highest_lr, step.learning_rate)
        if self.is_low(self.last_lr):
            self.trainer.finish()
        self.check_time()

    def is_low(self, rate: float) -> bool:
        return rate <= self.min_lr and rate < self.highest_lr

    def check_time(self) -> None:
        """Request a stop of all ranks if the time is up."""
        if self.max_seconds and self.seconds >= self.max_seconds:
            self.trainer.request_stop()

    @property
    def seconds(self) -> float:
        return self.clock() - self.started_at

    def state(self) -> State:
        return {"seconds": self.seconds, "highest_lr": self.highest_lr, "lr": self.last_lr}

    def restore(self, state: State) -> None:
        """A run that has ended stays so, unless it is now longer and its rate is higher again."""
        saved = convert_fields(state, {"seconds": float, "highest_lr": float, "lr": float})
        self.started_at = self.clock() - saved["seconds"]
        self.highest_lr, self.last_lr = saved["highest_lr"], saved["lr"]
        trainer = self.trainer
        rate = max(trainer.peak_lrs) * trainer.schedule(trainer.progress.update + 1)
        if self.is_low(self.last_lr) and self.is_low(rate):
            trainer.finish()


SIGNALS = known_signals("SIGTERM", "SIGINT", "SIGUSR1")


@contextmanager
def listen_for_signals(request_stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call `request_stop` at the first signal in the block; yields the numbers received so far.
    Only the main thread can handle signals; in others this does nothing.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_IGN)
        request_stop()
        try:  # wait here: a second signal must act even if the main thread then hangs in C code
            time.sleep(REPEAT_SECONDS)
        finally:
            signal.signal(number, before[signal.Signals(number)])

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
