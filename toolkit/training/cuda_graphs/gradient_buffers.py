"""Gradients at fixed addresses, which graphs add to and read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


class GradientBuffers:
    """One buffer per parameter, which graphs take for its gradient.

    Between updates no parameter has a gradient, with or without graphs.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = parameters
        self.buffers: dict[int, Tensor] = {}
        """By the index of the parameter; made when a graph first needs them."""

    def present(self) -> tuple[int, ...]:
        """Indices of the parameters that have a gradient."""
        return tuple(i for i, p in enumerate(self.parameters) if p.grad is not None)

    def attach(self, indices: Sequence[int]) -> None:
        """Make buffers the gradients of these parameters, with the values of those present."""
        new: list[Tensor] = []
        moved: list[tuple[Tensor, Tensor]] = []
        for index in indices:
            p, buffer = self.parameters[index], self.buffer(index)
            if p.grad is None:
                new.append(buffer)
            elif p.grad is not buffer:
                moved.append((buffer, p.grad))
            p.grad = buffer
        if new:
            torch._foreach_zero_(new)
        if moved:
            torch._foreach_copy_([to for to, _ in moved], [source for _, source in moved])

    def attach_unchanged(self, indices: Sequence[int]) -> None:
        """Make buffers the gradients of these parameters with whatever they hold."""
        for index in indices:
            self.parameters[index].grad = self.buffer(index)

    def hold(self, indices: Sequence[int]) -> bool:
        """Whether the gradients of these parameters are their buffers."""
        return all(self.parameters[i].grad is self.buffers.get(i) for i in indices)

    def buffer(self, index: int) -> Tensor:
        if index not in self.buffers:
            self.buffers[index] = torch.zeros_like(self.parameters[index])
        return self.buffers[index]

    def remove_gradients(self) -> None:
        """Remove all gradients; the buffers keep their memory."""
        for p in self.parameters:
            p.grad = None

    def release(self) -> None:
        """Forget the buffers; those that are gradients at the moment live until the update."""
        self.buffers.clear()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Without gradients inside; afterwards the present ones are back."""
        kept = [p.grad for p in self.parameters]
        self.remove_gradients()
        try:
            yield
        finally:
            for p, gradient in zip(self.parameters, kept, strict=True):
                p.grad = gradient
