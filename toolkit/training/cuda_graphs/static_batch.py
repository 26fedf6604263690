"""Batches at fixed addresses, and what must be equal for batches to share a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor

from toolkit.tasks.batch import Batch

HOST_FIELDS = ("sentences", "tokens", "word_count")
"""Fields of a batch that change from one to the next and that no model reads. The same holds for
its weights, except that a model may ask whether one is zero."""


class HostNumber:
    """Placeholder in a graph for a number of the host, whose first value would never change."""

    def __init__(self, name: str, is_zero: bool | None = None) -> None:
        self.name, self.is_zero = name, is_zero

    def __bool__(self) -> bool:
        return self.fail() if self.is_zero is None else not self.is_zero

    def fail(self, *arguments: object) -> NoReturn:
        raise TypeError(f"a model that is captured in a CUDA graph cannot read batch.{self.name}")

    __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = fail
    __add__ = __radd__ = __sub__ = __rsub__ = fail
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = fail


def batch_signature(batch: Batch) -> Hashable:
    """Shapes and types of all tensors, which optional ones there are, other plain values, and which
    weights are zero."""
    zeros = tuple((name, not weight) for name, weight in batch.weights.items())
    hidden = {"weights", *HOST_FIELDS}
    return zeros, *((name, _describe(it)) for name, it in _fields(batch) if name not in hidden)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    return zip(value._fields, value, strict=True)


def _describe(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        return value.shape, value.dtype
    if hasattr(value, "_fields"):
        return tuple((name, _describe(part)) for name, part in _fields(value))
    described: Hashable = value
    return described


def collect_tensors(value: object) -> list[Tensor]:
    """The tensors of a batch and of the NamedTuples in it."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [tensor for part in value for tensor in collect_tensors(part)]
    return []


class StaticBatch:
    """A batch on the device whose tensors take the values of others with the same signature."""

    def __init__(self, batch: Batch, device: torch.device) -> None:
        named: Any = _allocate(batch, device)
        numbers = {name: HostNumber(name) for name in HOST_FIELDS if hasattr(batch, name)}
        weights = {name: HostNumber("weights", not it) for name, it in batch.weights.items()}
        self.batch: Batch = named._replace(**numbers, weights=weights)
        self.tensors = collect_tensors(self.batch)
        self.fill(batch)

    def fill(self, batch: Batch) -> None:
        """Copy the values of a batch, without waiting if they are in pinned memory."""
        for static, tensor in zip(self.tensors, collect_tensors(batch), strict=True):
            static.copy_(tensor, non_blocking=True)


def _allocate(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype, device=device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_allocate(part, device) for part in value))
    return value
