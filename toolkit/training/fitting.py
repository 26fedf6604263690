"""An evaluation's batch that does not fit into memory is taken in halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from toolkit.common.errors import ToolkitError
from toolkit.training.gradient import first_line, is_out_of_memory

Numbers = npt.NDArray[np.int64]
See = Callable[[Any], object]
"""What is done with a batch: wholly, or not at all where memory is refused."""


@runtime_checkable
class Divisible(Protocol):
    """A loader that gives the examples of an evaluation's batch once more."""

    def evaluated(self, number: int) -> Numbers: ...
    def collated(self, ids: Numbers) -> Any: ...


def in_parts(loader: object, number: int, batch: Any, see: See) -> None:
    """See this rank's batch of that number; where memory refuses, its halves, and so on."""
    failure = refused(see, batch)
    if failure:
        ids = loader.evaluated(number) if isinstance(loader, Divisible) else np.zeros(1, np.int64)
        halve(loader, ids, see, failure)


def refused(see: See, batch: Any) -> str:
    """What memory said where it refused; behind this the tensors of the attempt are gone."""
    try:
        see(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return first_line(error)
    return ""


def halve(loader: Any, ids: Numbers, see: See, failure: str) -> None:
    if len(ids) < 2:
        raise ToolkitError(
            f"an example must fit into memory to be evaluated, but one did not ({failure}). Lower "
            f"--tokens-per-sample."
        )
    for half in np.array_split(ids, 2):
        failure = refused(see, loader.collated(half))
        if failure:
            halve(loader, half, see, failure)
