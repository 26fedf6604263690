"""Optimizers written here: all parameters of one kind move at once, by operations on lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

State = dict[str, Tensor]
Tensors = list[Tensor] | tuple[Tensor, ...]


class Listwise(Optimizer):
    """A subclass says what a parameter's state begins as and how a list of them moves.

    `step` in a state is the number of its updates. It stays on the host, where reading it waits
    for nothing.
    """

    def __init__(self, parameters: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def begin(self, p: Tensor) -> State:
        """What is remembered of a parameter before its first update."""
        raise NotImplementedError

    def move(self, group: dict[str, Any], p: Tensors, g: Tensors, states: list[State]) -> None:
        """Move the parameters p of one group and kind by their gradients g, in place."""
        raise NotImplementedError

    def kind(self, p: Tensor) -> Hashable:
        """Parameters of one kind move together."""
        return ()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        assert closure is None, "the gradients must be there before the step"
        for group in self.param_groups:
            kinds: dict[Hashable, list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    kinds.setdefault((p.device, p.dtype, self.kind(p)), []).append(p)
            for parameters in kinds.values():
                gradients = [p.grad for p in parameters if p.grad is not None]
                self.move(group, parameters, gradients, [self.counted(p) for p in parameters])

    def counted(self, p: Tensor) -> State:
        """The state of a parameter that is about to take one more update."""
        state: State = self.state[p]
        if not state:
            state |= {"step": torch.zeros(()), **self.begin(p)}
        state["step"] = state["step"].cpu() + 1
        return state


def those(states: list[State], name: str) -> Tensors:
    return [state[name] for state in states]


def numbers(states: list[State]) -> list[float]:
    """How many updates each has taken, this one included."""
    return [float(state["step"]) for state in states]
