"""Optimizers written here: all parameters of one kind move at once, by operations on lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from toolkit.distributed.fsdp import to_local

State = dict[str, Tensor]
Tensors = list[Tensor] | tuple[Tensor, ...]


@dataclass(frozen=True)
class ParameterBatch:
    """Parameters of one group and kind that move together: this rank's rows where sharded."""

    parameters: list[Tensor]
    """As the learner has them, sharded ones with the rows of all ranks."""
    p: list[Tensor]
    g: list[Tensor]
    """Their gradients."""
    states: list[State]


class ForeachOptimizer(Optimizer):
    """A subclass says what a parameter's state begins as and how a list of them moves.

    `step` in a state is the number of its updates. It stays on the host, where reading it waits
    for nothing.
    """

    def __init__(self, parameters: Iterable[dict[str, Any]], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def init_state(self, p: Tensor) -> State:
        """What is remembered of a parameter before its first update."""
        raise NotImplementedError

    def update_batch(self, group: dict[str, Any], batch: ParameterBatch) -> None:
        """Move the parameters of one group and kind by their gradients, in place."""
        raise NotImplementedError

    def batch_key(self, p: Tensor) -> Hashable:
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
                    kinds.setdefault((p.device, p.dtype, self.batch_key(p)), []).append(p)
            for parameters in kinds.values():
                gradients = [to_local(p.grad) for p in parameters if p.grad is not None]
                states = [
                    {name: to_local(value) for name, value in self.advance_state(p).items()}
                    for p in parameters
                ]
                rows = [to_local(p.detach()) for p in parameters]
                self.update_batch(group, ParameterBatch(parameters, rows, gradients, states))

    def advance_state(self, p: Tensor) -> State:
        """The state of a parameter that is about to take one more update."""
        state: State = self.state[p]
        if not state:
            state |= {"step": torch.zeros(()), **self.init_state(p)}
        state["step"] = state["step"].cpu() + 1
        return state


def state_tensors(states: list[State], name: str) -> Tensors:
    return [state[name] for state in states]


def update_counts(states: list[State]) -> list[float]:
    """How many updates each has taken, this one included."""
    return [float(state["step"]) for state in states]


def tensor_norms(rows: Tensors, parameters: list[Tensor]) -> Float[Tensor, " N"]:
    """The norm of each whole tensor, of which these are the rows of this rank."""
    found = torch.stack(list(torch._foreach_norm(rows)))
    sharded = next((p for p in parameters if isinstance(p, DTensor)), None)
    if sharded is None:
        return found
    squares = found.square()
    dist.all_reduce(squares, group=sharded.device_mesh.get_group())
    return squares.sqrt()
