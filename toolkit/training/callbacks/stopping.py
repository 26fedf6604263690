"""How long a run is: its number of updates, and what may end it before."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.training.step import Place, State, Step
from toolkit.training.trainer import Loader, Trainer


def total_updates(c: TrainingConfig, loader: Loader, world: World, place: Place) -> int:
    """The updates that max_update and max_epoch allow, whichever is reached first.

    Those behind are counted as they were taken, perhaps by other ranks or accumulating otherwise.
    """
    if c.max_update is None and c.max_epoch is None:
        raise ToolkitError(
            "a run must have an end, but neither training.max_update nor training.max_epoch is "
            "given. Pass --max-update or --max-epoch."
        )
    if c.max_epoch is None:
        return int(c.max_update or 0)
    together = world.size * c.micro_batches_per_rank(world.size)
    total, consumed = place.update, place.consumed
    for epoch in range(place.epoch, c.max_epoch + 1):
        left = loader.micro_batches(epoch) - consumed
        total, consumed = total + math.ceil(left / together), 0
    return total if c.max_update is None else min(total, c.max_update)


class Ending:
    """Ends a run whose time is over, with a checkpoint, or whose rate has fallen low enough.

    The time is that of all runs that led here, validation and saving included.
    """

    def __init__(
        self, trainer: Trainer, c: TrainingConfig, clock: Callable[[], float] = monotonic
    ) -> None:
        self.trainer, self.clock = trainer, clock
        self.most_seconds, self.least_rate = c.stop_time_hours * 3600, c.stop_min_lr
        self.begun = clock()
        self.highest = 0.0
        """Highest learning rate so far: while the rate rises, it is not too low yet."""
        self.latest = math.inf
        """That of the last update."""

    def __call__(self, step: Step) -> None:
        self.latest, self.highest = step.learning_rate, max(self.highest, step.learning_rate)
        if self.low(self.latest):
            self.trainer.finish()
        self.watch_time()

    def low(self, rate: float) -> bool:
        return rate <= self.least_rate and rate < self.highest

    def watch_time(self) -> None:
        """Ask all ranks to stop where this one's time is over."""
        if self.most_seconds and self.seconds >= self.most_seconds:
            self.trainer.ask_to_stop()

    @property
    def seconds(self) -> float:
        return self.clock() - self.begun

    def state(self) -> State:
        return {"seconds": self.seconds, "highest_lr": self.highest, "lr": self.latest}

    def restore(self, state: State) -> None:
        """What has ended stays so, unless it shall be longer and its rate is higher again."""
        self.begun = self.clock() - state["seconds"]
        self.highest, self.latest = state["highest_lr"], state.get("lr", math.inf)
        trainer = self.trainer
        rate = max(trainer.peaks) * trainer.schedule(trainer.place.update + 1)
        if self.low(self.latest) and self.low(rate):
            trainer.finish()
