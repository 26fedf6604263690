"""Items of the training text that are held out, decided by their position alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray

RUN_LENGTH = 16  # items held out in a row, so that neighbors stay together
HELD_STEP, TEST_STEP = (5**0.5 - 1) / 2, 2**0.5 - 1  # whose multiples mod 1 fill 0 .. 1 evenly


class SplitAssignment(NamedTuple):
    """The items of a batch that go to one split."""

    split: str
    selected: BoolArray
    runs: IntArray
    """Differs between items that are no longer neighbors in this split; 0 continues the part
    before."""


def assign_splits(
    split: str,
    numbers: IntArray,
    valid_fraction: float,
    test_fraction: float,
    part: int = 0,
) -> Iterator[SplitAssignment]:
    """Of a part's runs 0, 1, 2 .. run b is held out where floor(b s + phase) steps up.

    Phases of the parts are spread evenly over 0 .. 1, so that parts too short for their share
    to be a run add up to it.
    """
    held_share = valid_fraction + test_fraction
    if split != "train" or held_share == 0:
        yield SplitAssignment(split, np.ones(len(numbers), bool), np.zeros(len(numbers), np.int64))
        return
    run = numbers // RUN_LENGTH
    phase = _phase(part, HELD_STEP)
    before = _steps(run, held_share, phase)
    held = _steps(run + 1, held_share, phase) > before
    of_held, phase = test_fraction / held_share, _phase(part, TEST_STEP)
    test = held & (_steps(before + 1, of_held, phase) > _steps(before, of_held, phase))
    yield SplitAssignment("train", ~held, before)
    yield SplitAssignment("valid", held & ~test, run + 1)
    yield SplitAssignment("test", test, run + 1)


def _phase(part: int, step: float) -> float:
    return (0.5 + part * step) % 1


def _steps(numbers: IntArray, share: float, phase: float) -> IntArray:
    return np.floor(numbers * share + phase).astype(np.int64)
