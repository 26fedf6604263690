"""Torch's optimizers without their precautions against torch.compile.

Torch excludes an optimizer's methods from compiled code. The first call of one imports Dynamo,
which takes as long as importing torch. The toolkit compiles layers, never an optimizer's step.
"""

from __future__ import annotations

from inspect import unwrap
from typing import TypeVar

import torch
from torch.optim import Optimizer

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
