"""How long a run is."""

from __future__ import annotations

import math

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.training.step import Place
from toolkit.training.trainer import Loader


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
