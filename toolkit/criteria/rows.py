"""Rows of logits that fit into a CPU's cache."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

BLOCK = 1 << 18
"""Logits per block on a CPU: 1 MiB in fp32."""


def split_rows(logits: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Corresponding blocks of rows of all tensors; all rows at once on other devices."""
    rows = max(1, len(logits))
    if logits.device.type == "cpu":
        rows = max(1, BLOCK // max(1, logits.shape[-1]))
    return zip(*(it.split(rows) for it in (logits, *others)), strict=True)
