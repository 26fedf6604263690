"""Which form of an operation runs: fast paths can be switched off, and be left out of graphs.

`TOOLKIT_PLAIN=1` switches off all fast paths on CPUs, so that their plain forms run, and
`TOOLKIT_PLAIN=dropout,attention` those two. benchmarks/fast_paths.py measures what each one gains.
`TOOLKIT_UNMEASURED=1` switches on paths that wait for a GPU to say whether they are faster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError

PATHS = (
    "add_norm",
    "attention",
    "banded_convolution",
    "convolution",
    "dropout",
    "offset_attention",
    "offset_products",
    "packed_linear",
    "sliding_window",
)
"""Names of the fast paths on CPUs."""
UNMEASURED = ("bias_sums",)
"""Of those on GPUs that are off."""


def read_names(words: str) -> frozenset[str]:
    """The paths that TOOLKIT_PLAIN switches off."""
    if words in {"", "0"}:
        return frozenset()
    names = PATHS if words == "1" else tuple(words.split(","))
    if unknown := set(names) - set(PATHS):
        raise ToolkitError(
            f"TOOLKIT_PLAIN names {', '.join(sorted(unknown))}, which is no fast path. Set it to 1 "
            f"or to some of {', '.join(PATHS)}."
        )
    return frozenset(names)


_off = read_names(os.environ.get("TOOLKIT_PLAIN", ""))
if os.environ.get("TOOLKIT_UNMEASURED", "") in {"", "0"}:
    _off |= {*UNMEASURED}


def fast(path: str) -> bool:
    """Whether a fast path may run."""
    return path not in _off


@contextmanager
def switched_off(*paths: str) -> Iterator[None]:
    """The plain forms of some paths run in this block, and all others that there are."""
    global _off
    previous, _off = _off, read_names(",".join(paths))
    try:
        yield
    finally:
        _off = previous


try:
    from torch._compile import _disable_dynamo as disable  # imports Dynamo in its first call
except ImportError:  # a version of torch without this private function
    from torch.compiler import disable  # type: ignore[no-redef]


@disable
def apply_in_eager_mode(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """function.apply(*arguments) between two graphs."""
    return function.apply(*arguments)


def apply_eagerly(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """function.apply(*arguments), between graphs, which cannot hold views as other integers, or the
    backward pass of another operation. Only what is compiled imports Dynamo, which takes a second.
    """
    if torch.compiler.is_compiling():
        return apply_in_eager_mode(function, *arguments)
    return function.apply(*arguments)
