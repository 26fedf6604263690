"""Recording and replay of work on a CPU, as a CUDA graph would do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from toolkit.training.graph_recorder import GraphRecorder

WAITS = ("_local_scalar_dense", "nonzero", "bincount", "masked_select", "equal", "_unique2")


class Operation(NamedTuple):
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Tensor]

    def replay(self) -> None:
        """Compute from what the arguments hold now, into the same outputs."""
        found = tensors(self.function(*self.args, **self.kwargs))
        for old, new in zip(self.outputs, found, strict=True):
            if old.data_ptr() != new.data_ptr():
                old.copy_(new)


class Recording(TorchDispatchMode):
    """The operations of a piece of work: functions, tensors by address, and numbers by value.

    Numbers of the host stay what they were, which shows whatever should have been in a tensor.
    Random operations are repeated and draw from the generator again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.made: set[int] = set()
        self.before: dict[int, tuple[Tensor, Tensor]] = {}
        """Tensors from outside that were changed, and their first values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func._schema.name.split("::")[1]
        if name in WAITS:
            raise RuntimeError(f"{name} waits for the device, which a capture does not allow")
        self.save_changed(func, args, kwargs)
        out = func(*args, **kwargs)
        outputs = tensors(out)
        self.made |= {address(t) for t in outputs if address(t) not in self.inputs(args, kwargs)}
        self.operations.append(Operation(func, args, kwargs, outputs))
        return out

    def inputs(self, args: Any, kwargs: Any) -> set[int]:
        return {address(t) for t in tensors((args, kwargs))} - self.made

    def save_changed(self, func: Any, args: Any, kwargs: Any) -> None:
        named = zip((argument.name for argument in func._schema.arguments), args, strict=False)
        given = {**dict(named), **kwargs}
        for argument in func._schema.arguments:
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in tensors(given.get(argument.name)):
                if address(tensor) not in self.made and address(tensor) not in self.before:
                    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
                    self.before[address(tensor)] = whole, whole.clone()

    @torch.no_grad()
    def undo(self) -> None:
        """Put back what the work has changed: a capture on a GPU only records."""
        for tensor, values in self.before.values():
            tensor.copy_(values)


class OperationRecorder(GraphRecorder):
    """For CPUs."""

    def __init__(self) -> None:
        self.captures = self.replays = 0

    def warm_up(self, body: Callable[[], Tensor]) -> list[Tensor]:
        body()
        return []

    def capture(self, body: Callable[[], Tensor]) -> Callable[[], Tensor]:
        recording = Recording()
        try:
            with recording:
                out = body()
        finally:
            recording.undo()
        self.captures += 1

        @torch.no_grad()
        def replay() -> Tensor:
            self.replays += 1
            for operation in recording.operations:
                operation.replay()
            return out

        return replay


def tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
