"""Held-out items of the training text, selected by their position alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import BoolArray, IntArray

RUN_LENGTH = 16  # consecutive items that are held out together, so that neighbors stay together
HELD_STEP, TEST_STEP = (5**0.5 - 1) / 2, 2**0.5 - 1  # multiples mod 1 fill 0 .. 1 evenly


class SplitAssignment(NamedTuple):
    """The items of a batch that go to one split."""

    split: str
    selected: BoolArray
    runs: IntArray
    """Run of each item: it differs between items that are no longer neighbors in this split. 0
    continues the part before."""


def assign_splits(
    split: str, numbers: IntArray, valid_fraction: float, test_fraction: float, part: int = 0
) -> Iterator[SplitAssignment]:
    """Hold out run b of a part's runs 0, 1, 2, ... if floor(b s + phase) increases from b to b + 1.

    s is the sum of the fractions. The phases of the parts are spread evenly over 0 .. 1, so the
    fractions also hold over many parts that are shorter than 1 / s runs.
    """
    held_fraction = valid_fraction + test_fraction
    if split != "train" or held_fraction == 0:
        yield SplitAssignment(split, np.ones(len(numbers), bool), np.zeros(len(numbers), np.int64))
        return
    run = numbers // RUN_LENGTH
    phase = _phase(part, HELD_STEP)
    before = _steps(run, held_fraction, phase)
    held = _steps(run + 1, held_fraction, phase) > before
    test_of_held, phase = test_fraction / held_fraction, _phase(part, TEST_STEP)
    test = held & (_steps(before + 1, test_of_held, phase) > _steps(before, test_of_held, phase))
    yield SplitAssignment("train", ~held, before)
    yield SplitAssignment("valid", held & ~test, run + 1)
    yield SplitAssignment("test", test, run + 1)


def _phase(part: int, step: float) -> float:
    return (0.5 + part * step) % 1


def _steps(numbers: IntArray, fraction: float, phase: float) -> IntArray:
    return np.floor(numbers * fraction + phase).astype(np.int64)
