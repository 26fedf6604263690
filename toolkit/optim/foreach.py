"""Base classes of the optimizers implemented here, with torch's foreach operations on lists.

They lack torch's precautions against torch.compile, which import Dynamo.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from inspect import unwrap
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from toolkit.distributed.sharded_tensors import is_sharded_tensor, to_local
from toolkit.optim.parameter_groups import (
    NamedParameter,
    OptimizerConfig,
    ParameterGroup,
    build_parameter_groups,
)

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


class EagerOptimizer(Optimizer):
    """An optimizer with the undecorated methods of `torch.optim.Optimizer`."""

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)


def make_eager(kind: type[AnyOptimizer]) -> type[AnyOptimizer]:
    """A subclass of an optimizer of torch with its undecorated methods; `step` has no gradients."""
    step = torch.no_grad()(unwrap(kind.step))
    return type(kind.__name__, (EagerOptimizer, kind), {"step": step})


Config = TypeVar("Config", bound=OptimizerConfig)
State = dict[str, Tensor]
Tensors = list[Tensor] | tuple[Tensor, ...]


@dataclass(frozen=True)
class ParameterBatch:
    """Parameters of one group and kind, updated together; if sharded, this rank's rows."""

    parameters: list[Tensor]
    """The learner's parameters; sharded ones stand for the rows of all ranks."""
    p: list[Tensor]
    g: list[Tensor]
    """Gradients of `p`."""
    states: list[State]

    def state(self, name: str) -> list[Tensor]:
        """One tensor of every state."""
        return [state[name] for state in self.states]

    def by_update_count(self, function: Callable[[Any], Any]) -> Any:
        """f(t) of each parameter, t the number of its updates, including this one.

        On a GPU, where reading t would wait for the device, f is given a tensor of all t.
        """
        steps = self.state("step")
        if steps[0].device.type == "cpu":
            return [function(float(t)) for t in steps]
        return list(function(torch.stack(steps)).unbind())


class ForeachOptimizer(EagerOptimizer, Generic[Config]):
    """A subclass defines a parameter's initial state and the update of a list of parameters.

    `step` in a state counts its updates. It is on the parameter's device, where an update that is
    skipped is not counted.
    """

    def __init__(self, c: Config, parameters: Iterable[NamedParameter | ParameterGroup]) -> None:
        """Of named parameters, or of groups of them."""
        given = list(parameters)
        groups = [it for it in given if isinstance(it, dict)]
        named = [it for it in given if not isinstance(it, dict)]
        super().__init__(groups or build_parameter_groups(named, c), {"lr": c.lr})
        self.c = c

    def init_state(self, p: Tensor) -> State:
        """The state of a parameter before its first update."""
        raise NotImplementedError

    def update_batch(self, group: ParameterGroup, batch: ParameterBatch) -> None:
        """Update the parameters of one group and kind in place."""
        raise NotImplementedError

    def batch_key(self, p: Tensor) -> Hashable:
        """Parameters with equal keys are updated together."""
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
        """The state of a parameter with its `step` incremented."""
        state: State = self.state[p]
        if not state:
            state |= {"step": torch.zeros((), device=p.device), **self.init_state(p)}
        state["step"] = state["step"].to(p.device) + 1
        return state


def tensor_norms(rows: Tensors, parameters: list[Tensor]) -> Float[Tensor, " N"]:
    """Norms of whole tensors, of which `rows` are this rank's rows."""
    norms = torch.stack(list(torch._foreach_norm(rows)))
    sharded = next((p for p in parameters if is_sharded_tensor(p)), None)
    if sharded is None:
        return norms
    squares = norms.square()
    dist.all_reduce(squares, group=sharded.device_mesh.get_group())
    return squares.sqrt()
