"""The length of a run: its number of updates, and criteria and signals that stop it earlier.

SIGTERM, SIGINT and SIGUSR1 stop training at the next update, with a checkpoint. The command then
exits with 128 + the signal's number (143, 130, 138), as shells do. A second signal of the same kind
terminates immediately, unless it arrives within a second.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from types import FrameType

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import convert
from toolkit.common.system import REPEAT_SECONDS, known_signals
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.training.step import State, Step, TrainingProgress
from toolkit.training.trainer import Trainer


def count_total_updates(
    c: TrainingConfig,
    micro_batches: Callable[[int], int],
    world: World,
    progress: TrainingProgress,
) -> int:
    """The updates that max_update and max_epoch allow, whichever is reached first.

    `micro_batches` is their number in an epoch. Updates that are done count as they are, even if
    they were done with other ranks or accumulation.
    """
    if c.max_update is None and c.max_epoch is None:
        raise ToolkitError("Set --max-update or --max-epoch: one of them must end the run.")
    if c.max_epoch is None:
        return int(c.max_update or 0)
    per_update = world.size * c.micro_batches_per_rank(world.size)
    total, consumed = progress.update, progress.consumed
    for epoch in range(progress.epoch, c.max_epoch + 1):
        left = micro_batches(epoch) - consumed
        total, consumed = total + math.ceil(left / per_update), 0
    return total if c.max_update is None else min(total, c.max_update)


@dataclass(frozen=True, kw_only=True)
class StoppingState:
    """State of StoppingCriteria in a checkpoint."""

    seconds: float
    highest_lr: float
    lr: float = math.inf


class StoppingCriteria:
    """Stops a run after a maximum time, or when the learning rate falls to a minimum.

    The time includes validation and saving, and the time before resuming.
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
        saved = convert(state, StoppingState)
        self.started_at = self.clock() - saved.seconds
        self.highest_lr, self.last_lr = saved.highest_lr, saved.lr
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
