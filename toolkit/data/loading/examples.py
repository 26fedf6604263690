"""What a task makes of a split: examples that can be counted, measured and put into batches."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@runtime_checkable
class HasRemark(Protocol):
    """Examples that leave something of the data out, and say how much."""

    remark: str
    """For people, as `1,200 cut, 3,400 tokens lost (1.2%)`; empty where all is there."""


@runtime_checkable
class Examples(Protocol):
    """Read by the batch planner (lengths) and by the workers (collate)."""

    lengths: npt.NDArray[np.int64]
    """Tokens of each example, special symbols included."""
    fingerprint: str
    """Changes when the examples do: data, vocabulary and the options that shape them."""

    def collate(self, ids: npt.NDArray[np.int64], epoch: int | None) -> Any:
        """One micro-batch of these examples; epoch None is evaluation, the same every time.

        Ids from len(lengths) on are further copies of example id % len(lengths): the same data,
        with randomness of their own.

        Without ids the batch of an idle rank: it goes through the model like any other, but all
        its weights, its sentences and its tokens are zero, and so is its loss.
        """
        ...
