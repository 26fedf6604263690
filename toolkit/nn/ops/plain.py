"""Fast paths switched off, so that their plain forms run: by TOOLKIT_PLAIN, or in a block.

`TOOLKIT_PLAIN=1` switches off all of them, and `TOOLKIT_PLAIN=dropout,attention` those two. Paths
on GPUs are not concerned. benchmarks/fast_paths.py measures what each one gains.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from toolkit.common.errors import ToolkitError

PATHS = (
    "add_norm",
    "attention",
    "banded_convolution",
    "channel_mixing",
    "convolution",
    "depthwise",
    "dropout",
    "offset_attention",
    "offset_biases",
    "offset_products",
    "packed_linear",
    "rms_norm",
    "rotation",
    "sliding_window",
    "taps",
    "token_order",
)
"""Names of the fast paths on CPUs."""


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


def fast(path: str) -> bool:
    """Whether a fast path may run."""
    return path not in _off


@contextmanager
def switched_off(*paths: str) -> Iterator[None]:
    """The plain forms of some paths run in this block."""
    global _off
    previous, _off = _off, read_names(",".join(paths))
    try:
        yield
    finally:
        _off = previous
