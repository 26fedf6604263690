"""Which items of the training text are held out: decided by their place alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

RUN = 16  # items held out in a row, so that neighbours stay together


class Share(NamedTuple):
    """The items of a batch that go to one split."""

    split: str
    chosen: npt.NDArray[np.bool_]
    runs: npt.NDArray[np.int64]
    """Differs between items that are no longer neighbours in this split."""


def shares(
    split: str, numbers: npt.NDArray[np.int64], valid_share: float, test_share: float
) -> Iterator[Share]:
    """Of the items' runs 0, 1, 2 .. run b is held out where floor(b s + 1/2) steps up."""
    held_share = valid_share + test_share
    if split != "train" or held_share == 0:
        yield Share(split, np.ones(len(numbers), bool), np.zeros(len(numbers), np.int64))
        return
    run = numbers // RUN
    before = _steps(run, held_share)
    held = _steps(run + 1, held_share) > before
    test_before = _steps(before, test_share / held_share)
    test = held & (_steps(before + 1, test_share / held_share) > test_before)
    yield Share("train", ~held, before)
    yield Share("valid", held & ~test, run)
    yield Share("test", test, run)


def _steps(numbers: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.int64]:
    return np.floor(numbers * share + 0.5).astype(np.int64)
