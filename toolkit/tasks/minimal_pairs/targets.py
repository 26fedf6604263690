"""Distinct inputs of a model, and the tokens whose probabilities are read from each.

B inputs   S tokens of an input   N targets
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.models.interface import Inputs


class ModelInputs(NamedTuple):
    """Inputs of equal length, and the tokens whose log-probabilities are asked for."""

    inputs: Inputs
    selected: Int[Tensor, " N"]
    """Flat index of each target's position into B x S."""
    targets: Int[Tensor, " N"]


class TargetBatch(NamedTuple):
    """A batch for the model, and the sentence that each of its targets belongs to."""

    model_inputs: ModelInputs
    owners: IntArray


class TargetTable:
    """Targets by input; equal inputs are stored, and later computed, once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._rows: list[IntArray] = []
        self._targets: list[tuple[int, int, int, int]] = []

    def add(self, row: IntArray, position: int, target: int, owner: int) -> None:
        """Ask for log p(target) at a position of an input, on behalf of a sentence."""
        number = self._numbers.setdefault(row.tobytes(), len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
        self._targets.append((number, position, target, owner))

    def __len__(self) -> int:
        """Number of distinct inputs."""
        return len(self._rows)

    def batches(self, max_tokens: int) -> Iterator[TargetBatch]:
        """All inputs, those of equal length together, so that none is padded."""
        if not self._rows:
            return
        lengths = np.array([len(row) for row in self._rows])
        order = np.argsort(lengths, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        targets = np.array(self._targets)
        targets[:, 0] = rank[targets[:, 0]]
        targets = targets[np.argsort(targets[:, 0], kind="stable")]
        for first, last in _cut(lengths[order], max_tokens):
            low, high = np.searchsorted(targets[:, 0], [first, last])
            number, position, target, owner = targets[low:high].T
            tokens = np.stack([self._rows[row] for row in order[first:last]])
            selected = (number - first) * tokens.shape[1] + position
            model_inputs = ModelInputs(
                Inputs(torch.from_numpy(tokens)),
                torch.from_numpy(selected),
                torch.from_numpy(target.copy()),
            )
            yield TargetBatch(model_inputs, owner)


def _cut(lengths: IntArray, max_tokens: int) -> Iterator[tuple[int, int]]:
    """First and last row of batches of equal lengths, which ascend; at least one row each."""
    first = 0
    for length in np.unique(lengths):
        last = int(np.searchsorted(lengths, length, "right"))
        size = max(1, max_tokens // int(length))
        yield from ((start, min(start + size, last)) for start in range(first, last, size))
        first = last
