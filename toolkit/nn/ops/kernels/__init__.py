"""Triton kernels for GPUs, and the registration of the operations that they compute.

Triton itself is imported by the modules of this package, when an operation first runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec

import torch
from jaxtyping import Int
from torch import Tensor

SEEDS = 1 << 62
"""Number of seeds of dropout."""
SEEDS_AT_ONCE = 128
WORDS = 2
"""Numbers drawn for a seed, so that each begins at a multiple of 16 bytes, as kernels expect."""
define = partial(torch.library.custom_op, mutates_args=())
"""Registers an operation that changes no argument. Tracers, compilers and counters of operations
see it whole."""


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def triton_runs(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether kernels can read tensors of a dtype on a device; they compute in fp32 at most."""
    return device.type == "cuda" and dtype != torch.float64 and has_triton()


_drawn: list[Tensor] | None = None


def draw_seed(rate: float, device: torch.device) -> Int[Tensor, 1] | None:
    """A seed of dropout by torch's generator of the device, drawn there, so that each replay of a
    graph of launches has a new one; None without dropout.
    """
    if not rate:
        return None
    if torch.compiler.is_compiling() or _drawn is None:
        return torch.randint(SEEDS, (1,), device=device)
    if not _drawn:
        _drawn.extend(torch.randint(SEEDS, (SEEDS_AT_ONCE, WORDS), device=device)[:, :1].unbind())
    return _drawn.pop()


@contextmanager
def drawing_seeds(*, together: bool) -> Iterator[None]:
    """Whether seeds in this block are drawn many at a time, and not one by one.

    Only those of one pass may be: what is left at its end must not enter another pass.
    """
    global _drawn
    previous, _drawn = _drawn, [] if together else None
    try:
        yield
    finally:
        _drawn = previous
