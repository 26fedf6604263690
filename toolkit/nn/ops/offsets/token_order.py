"""Scores of tokens from scores by position, for position ids that are mostly in order, on CPUs.

B batch, whose last b sentences are not in order   S tokens   P positions   H heads
N moved tokens of a sentence   n rows   O offsets, 2 P - 1   K head width
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from toolkit.nn.ops.offsets.skew import MovedTokens, copy_by_index, gather_windows


class TokenOrder(NamedTuple):
    """Position ids from 0, and the tokens whose ids are not consecutive."""

    ids: Int[Tensor, "B S"]
    moved: MovedTokens
    positions: int
    """P: all ids are below it."""

    def moved_ids(self) -> Int[Tensor, "b N"]:
        return self.ids[self.moved.ordered_prefix :].gather(1, self.moved.indices)

    def order_keys(self, scores: Float[Tensor, "B H n P"]) -> Float[Tensor, "B H n S"]:
        """Scores of keys by token; of all sentences, or of the last b."""
        m = self.moved
        ordered = scores.narrow(-1, m.first_position, self.ids.shape[1]).contiguous()
        others = len(scores) - len(m.indices)
        columns = gather_columns(scores[others:], self.moved_ids())
        copy_by_index(ordered[others:], -1, m.indices, columns)
        return ordered

    def sum_keys(self, gradient: Float[Tensor, "B H n S"], out: Float[Tensor, "B H n P"]) -> None:
        """The transpose of `order_keys`; positions without tokens are left as they are."""
        m = self.moved
        out.narrow(-1, m.first_position, gradient.shape[-1]).copy_(gradient)
        others = len(gradient) - len(m.indices)
        columns = gather_columns(gradient[others:], m.indices).flatten(1, 2)
        sums = columns @ m.indicator.to(gradient.dtype)
        copy_by_index(out[others:], -1, m.positions, sums.unflatten(1, gradient.shape[1:3]))

    def select_rows(self, x: Float[Tensor, "B H S w"]) -> Float[Tensor, "b H N w"]:
        """Rows of moved tokens."""
        index = self.moved.indices[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[-1])
        return x[self.moved.ordered_prefix :].gather(2, index)

    def zero_rows(self, x: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H S K"]:
        """A copy with zeros for moved tokens."""
        x = x.clone()
        for sentence, index in zip(x[self.moved.ordered_prefix :], self.moved.indices, strict=True):
            sentence.index_fill_(1, index, 0.0)
        return x

    def add_moved_rows(
        self, out: Float[Tensor, "B H S S"], x: Float[Tensor, "B H S K"], columns: Tensor
    ) -> None:
        """Add the scores of moved tokens with all others; `columns` are the vectors, (H, K, O)."""
        rows = self.select_rows(x).transpose(0, 1)  # (b, H, N, K) -> (H, b, N, K)
        taps = (rows.flatten(1, 2) @ columns).unflatten(1, rows.shape[1:3]).transpose(0, 1)
        windows = gather_windows(taps, self.positions - 1 - self.moved_ids(), self.positions)
        scores = self.order_keys(windows)
        others = out[self.moved.ordered_prefix :]
        for sentence, index, values in zip(others, self.moved.indices, scores, strict=True):
            sentence.index_add_(1, index, values)

    def moved_rows_backward(
        self, gradient: Float[Tensor, "B H S S"], x: Tensor, vectors: Tensor, of_x: Tensor
    ) -> Float[Tensor, "H K O"]:
        """Write the gradients of moved rows of x, and return their part of that of the vectors."""
        rows, count = self.select_rows(gradient), self.positions
        padded = rows.new_zeros(*rows.shape[:3], 3 * count - 2)
        self.sum_keys(rows, padded.narrow(-1, count - 1, count))
        windows = gather_windows(padded, self.moved_ids(), 2 * count - 1)
        taps = windows.transpose(0, 1).flatten(1, 2)  # (b, H, N, O) -> (H, bN, O)
        of_rows = (taps @ vectors).unflatten(1, (len(rows), -1)).transpose(0, 1)
        copy_by_index(of_x[self.moved.ordered_prefix :], 1, self.moved.indices, of_rows)
        return self.select_rows(x).transpose(0, 1).flatten(1, 2).mT @ taps


def gather_columns(
    scores: Float[Tensor, "b H n w"], index: Int[Tensor, "b N"]
) -> Float[Tensor, "b H n N"]:
    """The columns of each sentence at its indices."""
    return scores.gather(-1, index[:, None, None].expand(-1, *scores.shape[1:3], -1))
