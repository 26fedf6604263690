"""Reading of taps by clipped offset, and its transpose, for CPUs.

B batch   S queries   T keys   H heads   R kernel taps, 2 * radius + 1
"""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from toolkit.nn.ops.offsets.diagonals import (
    Outermost,
    mask_outermost,
    read_diagonals,
    sum_diagonals,
    sum_outermost,
)
from toolkit.nn.ops.offsets.inner_keys import InnerKeys, find_inner_keys


class TapTable:
    """The taps that the pairs of queries and keys of a batch read."""

    def __init__(
        self,
        queries: Int[Tensor, "#B S"],
        keys: Int[Tensor, "#B T"],
        radius: int,
        in_order: int | None = None,
    ) -> None:
        """The first `in_order` sentences are at positions 0 .. S-1; None: all."""
        self.queries, self.keys, self.radius = queries, keys, radius
        self.in_order = in_order
        self._outermost: dict[torch.dtype, Outermost] = {}

    @property
    def offsets(self) -> Int[Tensor, "b 1 S T"]:
        """p_j - p_i of sentences that are not in order."""
        keys, queries = self.keys[self.in_order :], self.queries[self.in_order :]
        return keys[:, None, None] - queries[:, None, :, None]

    @cached_property
    def index(self) -> Int[Tensor, "b 1 S T"]:
        """Their taps."""
        return self.offsets.clamp(-self.radius, self.radius) + self.radius

    @cached_property
    def inner_keys(self) -> InnerKeys:
        """Their keys at the offsets within the radius."""
        return find_inner_keys(
            self.queries[self.in_order :], self.keys[self.in_order :], self.radius
        )

    def outermost(self, dtype: torch.dtype) -> Outermost:
        """Their masks."""
        if dtype not in self._outermost:
            self._outermost[dtype] = mask_outermost(self.offsets, self.radius, dtype)
        return self._outermost[dtype]

    def read(self, taps: Float[Tensor, "#B H S R"]) -> Float[Tensor, "#B H S T"]:
        """out[b, h, i, j] = taps[b, h, i, clip(p_j - p_i, -radius, radius) + radius]."""
        if self.in_order is not None:
            taps = taps.expand(max(len(taps), len(self.keys)), -1, -1, -1)
        scores = taps.new_empty(*taps.shape[:3], self.keys.shape[1])
        if self.in_order != 0:
            read_diagonals(taps[: self.in_order], scores[: self.in_order])
        if self.in_order is not None:
            others = taps[self.in_order :]
            index = self.index.expand(len(others), taps.shape[1], -1, -1)
            torch.gather(others, -1, index, out=scores[self.in_order :])
        return scores

    def sum(self, scores: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S R"]:
        """out[b, h, i, r] = sum of scores[b, h, i, j] over the j with the tap r."""
        sums = scores.new_empty(*scores.shape[:3], 2 * self.radius + 1)
        if self.in_order != 0:
            sum_diagonals(scores[: self.in_order], sums[: self.in_order])
        if self.in_order is not None:
            others, out = scores[self.in_order :], sums[self.in_order :]
            sum_outermost(others, self.outermost(scores.dtype), out)
            out[..., 1:-1] = self.inner_keys.sum(others)
        return sums


def read_by_table(taps: Float[Tensor, "#B H S R"], table: TapTable) -> Float[Tensor, "#B H S T"]:
    """`TapTable.read` with a gradient."""
    scores: Tensor = _Linear.apply(taps, table.read, table.sum)
    return scores


def sum_by_table(scores: Float[Tensor, "B H S T"], table: TapTable) -> Float[Tensor, "B H S R"]:
    """`TapTable.sum` with a gradient."""
    sums: Tensor = _Linear.apply(scores, table.sum, table.read)
    return sums


class _Linear(torch.autograd.Function):
    """A linear function, whose gradient is its transpose."""

    @staticmethod
    def forward(ctx, x, function, transpose):  # type: ignore[no-untyped-def]
        ctx.transpose = transpose
        return function(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return ctx.transpose(gradient), None, None
