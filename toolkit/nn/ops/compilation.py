"""Functions excluded from torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

try:
    from torch._compile import _disable_dynamo as disable  # imports Dynamo in its first call
except ImportError:  # a version of torch without this private function
    from torch.compiler import disable  # type: ignore[no-redef]

Function = TypeVar("Function", bound=Callable[..., Any])


def compile_disabled(function: Function) -> Function:
    """The function with `torch.compiler.disable`, which is called only where a graph is traced.

    It imports Dynamo, which takes a second that a run without compilation need not wait.
    """

    @disable
    def call_in_eager_mode(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return call_in_eager_mode(*args, **kwargs)
        return function(*args, **kwargs)

    return cast(Function, call)


@compile_disabled
def apply_eagerly(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """function.apply(*arguments), for functions that graphs cannot hold: views as other integers
    fail there, and so does the backward pass of another operation."""
    result: Tensor = function.apply(*arguments)
    return result
