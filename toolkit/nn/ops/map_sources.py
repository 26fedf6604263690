"""Attention maps as their products left them: maps, or taps of which they are views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

MAP, QUERY_TAPS, KEY_TAPS = range(3)


class MapSource(NamedTuple):
    """Attention maps, or taps that they are views of."""

    tensor: Float[Tensor, "B H S _"]
    kind: int = MAP
    """QUERY_TAPS are 2 S columns with map[i, j] = taps[i, j - i + S - 1], KEY_TAPS those of keys
    with map[i, j] = taps[j, i - j + S - 1]."""


def to_rows(tensor: Tensor, kind: int) -> Tensor:
    """Taps with contiguous rows."""
    packed = kind == MAP or tensor.stride()[-2:] == (tensor.shape[-1], 1)
    return tensor if packed else tensor.contiguous()


def view_maps(tensors: Sequence[Tensor], kinds: Sequence[int]) -> list[Float[Tensor, "B _ S T"]]:
    """Maps of sources; those of taps are views with overlapping rows."""
    return [view_map(tensor, kind) for tensor, kind in zip(tensors, kinds, strict=True)]


def view_map(tensor: Tensor, kind: int) -> Float[Tensor, "B _ S T"]:
    """The attention map that a source stands for, as a view of its tensor."""
    if kind == MAP:
        return tensor
    length = tensor.shape[2]
    strides = (*tensor.stride()[:2], 2 * length - 1, 1)
    start = tensor.storage_offset() + length - 1
    view = tensor.as_strided((*tensor.shape[:3], length), strides, start)
    return view if kind == QUERY_TAPS else view.mT


def tile_size(x: Tensor) -> tuple[int, int]:
    """Queries and keys whose maps are mixed together: half as many numbers of four bytes."""
    return 32 // x.element_size(), 16


def count_tiles(scores: Float[Tensor, "B H S T"]) -> tuple[int, int]:
    """Along the queries and along the keys."""
    queries, keys = tile_size(scores)
    length = scores.shape[-1]
    return -(-length // queries), -(-length // keys)


def empty_sums(gradient: Float[Tensor, "B H S T"], weight: Float[Tensor, "H C"]) -> Tensor:
    """Summands of the gradients of weight, bias and slope, of every tile."""
    rows, columns = count_tiles(gradient)
    shape = gradient.shape[0] * rows * columns, weight.shape[0], weight.shape[1] + 2
    return gradient.new_empty(shape, dtype=torch.float32)


def empty_by_head(sizes: Sequence[int], like: Tensor) -> Float[Tensor, "B H S _"]:
    """A new tensor whose first axis in memory is that of heads, as batched products take it."""
    batch, heads, *rest = sizes
    return like.new_empty(heads, batch, *rest).transpose(0, 1)
