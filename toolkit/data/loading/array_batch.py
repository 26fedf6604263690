"""Batches on their way from a worker to the trainer: arrays, sent through a pipe.

torch sends tensors through shared memory, which containers limit to 64 MB by default, or lack. For
batches of up to 1 MB, a copy through a pipe also takes less time than mapping each tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import numpy.typing as npt
import torch
from torch import Tensor

from toolkit.data.loading.examples import Batch


class _TensorData(NamedTuple):
    """The values of a tensor."""

    values: npt.NDArray[Any]


class ArrayBatch(Generic[Batch]):
    """A batch, a tuple of tensors, other tuples and plain values, with its tensors as arrays."""

    def __init__(self, batch: Batch) -> None:
        self._content = _map(batch, Tensor, lambda tensor: _TensorData(tensor.numpy()))

    def unpack(self) -> Batch:
        """The batch with its tensors."""
        batch: Batch = _map(self._content, _TensorData, lambda data: torch.from_numpy(data.values))
        return batch

    def pin_memory(self) -> Batch:
        """The batch with its tensors in pinned memory; DataLoader calls it in a thread."""
        batch: Batch = _map(self.unpack(), Tensor, Tensor.pin_memory)
        return batch


def _map(value: object, kind: type, change: Callable[[Any], object]) -> Any:
    """The value with the parts of a type changed, including those inside tuples."""
    if isinstance(value, kind):
        return change(value)
    if not isinstance(value, tuple):
        return value
    parts = [_map(part, kind, change) for part in value]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
