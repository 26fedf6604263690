"""Keys at each offset within the radius, by position ids.

B batch   S queries   T keys   H heads   I inner taps, 2 * radius - 1   C positions of several keys
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class InnerKeys(NamedTuple):
    """The single key at each inner offset of each query, or the several keys that share it."""

    keys: Int[Tensor, "#B 1 S I"]
    no_single: Bool[Tensor, "#B 1 S I"]
    """Where no key or several keys have the position."""
    groups: Int[Tensor, "#B 1 S I"]
    no_group: Bool[Tensor, "#B 1 S I"]
    """Where at most one key has the position."""
    members: Float[Tensor, "#B 1 T C"]
    """1 for the keys of each position that several share, else 0."""

    def sum(self, scores: Float[Tensor, "B H S T"]) -> Float[Tensor, "B H S I"]:
        """The sum of the scores of all keys at each inner offset."""
        sums = gather_or_zero(scores, self.keys, self.no_single)
        if self.members.shape[-1]:
            of_groups = scores @ self.members.to(scores.dtype)
            sums += gather_or_zero(of_groups, self.groups, self.no_group)
        return sums


def gather_or_zero(
    scores: Float[Tensor, "B H S n"],
    index: Int[Tensor, "#B 1 S I"],
    absent: Bool[Tensor, "#B 1 S I"],
) -> Float[Tensor, "B H S I"]:
    """The scores at an index, 0 where absent."""
    by_head = index.expand(*scores.shape[:2], -1, -1)
    return scores.gather(-1, by_head).masked_fill_(absent, 0.0)


def find_inner_keys(
    queries: Int[Tensor, "B S"], keys: Int[Tensor, "B T"], radius: int
) -> InnerKeys:
    """The keys at p_i - radius + 1 .. p_i + radius - 1 for queries at p_i."""
    ordered, order = keys.sort(dim=1)
    wanted = queries[..., None] + torch.arange(1 - radius, radius)
    first, count = find_runs(ordered, wanted)
    start, size = find_runs(ordered, ordered)
    shared = size > 1
    numbers = (shared & (start == torch.arange(keys.shape[1]))).cumsum(1)  # from 1
    group = torch.arange(1, int(numbers.max()) + 1)
    members = ((numbers[..., None] == group) & shared[..., None]).float()  # (B, T, C) in order
    members = torch.zeros_like(members).scatter_(1, order[..., None].expand_as(members), members)
    return InnerKeys(
        order.gather(1, first.flatten(1)).view_as(wanted)[:, None],
        (count != 1)[:, None],
        (numbers.gather(1, first.flatten(1)) - 1).clamp_(min=0).view_as(wanted)[:, None],
        (count < 2)[:, None],
        members[:, None],
    )


def find_runs(
    ordered: Int[Tensor, "B T"], wanted: Int[Tensor, "B ..."]
) -> tuple[Int[Tensor, "B ..."], Int[Tensor, "B ..."]]:
    """Where each wanted number is first in an ascending row, and how often; 0 times if absent."""
    flat = wanted.flatten(1)
    first = torch.searchsorted(ordered, flat)
    count = torch.searchsorted(ordered, flat, right=True) - first
    first = first.clamp_(max=ordered.shape[1] - 1)
    return first.view_as(wanted), count.view_as(wanted)
