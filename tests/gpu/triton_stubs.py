"""Stand-ins for launches of Triton kernels on the fake device: one operation each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from unittest.mock import patch

import torch
from torch import Tensor


@cache
def operations() -> torch.library.Library:
    """Operations without numbers, of the shapes and types of the kernels' results."""
    library = torch.library.Library("toolkit_fake", "DEF")
    library.define("convolution(Tensor taps, Tensor v) -> Tensor")
    library.define("correlation(Tensor gradient, Tensor v, int taps) -> Tensor")
    library.impl("convolution", lambda taps, v: torch.empty_like(v), "Meta")
    library.impl("correlation", lambda g, v, taps: v.new_empty(*v.shape[:3], taps), "Meta")
    return library


def launch_convolution(taps: Tensor, v: Tensor, *, transposed: bool) -> Tensor:
    return torch.ops.toolkit_fake.convolution(taps, v)


def launch_correlation(gradient: Tensor, v: Tensor, taps: int) -> Tensor:
    return torch.ops.toolkit_fake.correlation(gradient, v, taps)


@contextmanager
def stub_triton_kernels() -> Iterator[None]:
    """Without Triton there is nothing to replace, and the toolkit does not use it."""
    if find_spec("triton") is None:
        yield
        return
    from toolkit.nn.ops import banded_convolution_triton

    operations()
    with ExitStack() as stack:
        for stub in (launch_convolution, launch_correlation):
            stack.enter_context(patch.object(banded_convolution_triton, stub.__name__, stub))
        yield
