"""none, learned, sinusoidal: vectors of positions that are added to the token embeddings."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_position
from toolkit.nn.attention.position import Position, PositionEmbedding, PositionOptions, TableShape
from toolkit.nn.init import copy_to_device


@register_position("none", PositionOptions())
class NoPositions(Position[PositionOptions]):
    """Nothing depends on positions."""

    @property
    def encodes_order(self) -> bool:
        return False


@register_position("learned", PositionOptions())
class Learned(Position[PositionOptions]):
    """A learned vector per position."""

    limits_length = True

    def embedding(self, shape: TableShape) -> PositionTable:
        return PositionTable(shape.max_positions, shape.width, hidden=shape.hidden)


@register_position("sinusoidal", PositionOptions())
class Sinusoidal(Position[PositionOptions]):
    """Sines and cosines of the position."""

    def embedding(self, shape: TableShape) -> SinusoidalEncodings:
        return SinusoidalEncodings(shape.scale)


class PositionTable(PositionEmbedding, nn.Embedding):
    """A learned vector per position (Devlin et al. 2019); if `hidden` the last row is that of
    hidden positions.
    """

    max_positions: int

    def __init__(self, positions: int, width: int, *, hidden: bool = False) -> None:
        super().__init__(positions + hidden, width)
        self.max_positions, self.hidden = positions, hidden

    def vectors(
        self, x: Float[Tensor, "B S _"], ids: Int[Tensor, "B S"] | None, start: int = 0
    ) -> Float[Tensor, "#B S E"]:
        if ids is None:
            end = start + x.shape[1]
            check_length(end, self.max_positions)
            return self.weight[None, start:end]
        if ids.device.type == "cpu":  # on a GPU it would wait; the trainer did it before
            check_position_ids(ids, self.max_positions, hidden=self.hidden)
        return self(torch.where(ids < 0, self.max_positions, ids) if self.hidden else ids)


class SinusoidalEncodings(PositionEmbedding):
    """Sines and cosines of the positions (Vaswani et al. 2017, section 3.5), times `scale`."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def vectors(
        self, x: Float[Tensor, "B S _"], ids: Int[Tensor, "B S"] | None, start: int = 0
    ) -> Float[Tensor, "#B S E"]:
        length, width = x.shape[1:]
        if ids is None:
            vectors = sinusoidal_encodings(start, start + length, width, x.device, x.dtype)[None]
        else:
            vectors = compute_encodings(ids, width).to(x.dtype)
        return vectors if self.scale == 1 else self.scale * vectors


def check_length(length: int, limit: int) -> None:
    """Raise a ToolkitError if a sentence is longer than the position table."""
    if length > limit:
        raise ToolkitError(
            f"sentences must have at most arch.max_positions = {limit} tokens with a "
            f"table of positions, but one has {length}. Shorten tokens_per_sample, or train with "
            f"a larger arch.max_positions."
        )


def check_position_ids(positions: Int[Tensor, "B S"], limit: int, *, hidden: bool) -> None:
    """Ids must be below the limit; if `hidden`, they may be HIDDEN_POSITION."""
    low, high = find_range(positions)
    if low < (HIDDEN_POSITION if hidden else 0) or high >= limit:
        exception = f" or be {HIDDEN_POSITION} where hidden," if hidden else ""
        raise ToolkitError(
            f"position ids must lie in 0 .. {limit - 1},{exception} but range from {low} to "
            f"{high}. Train with a larger arch.max_positions."
        )


def find_range(ids: Int[Tensor, "B S"]) -> tuple[int, int]:
    """The least and the greatest id."""
    low, high = ids.aminmax()
    return int(low), int(high)


def sinusoidal_encodings(
    start: int, end: int, width: int, device: torch.device, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "S D"]:
    """sin and cos of p / 10000^(2c/D), p = start .. end - 1 (Vaswani et al. 2017, section 3.5),
    sines first; the paper alternates them.
    """
    if torch.compiler.is_exporting():  # lengths are symbols
        return compute_encodings(torch.arange(start, end), width).to(device, dtype)
    if start < 0:
        return cached_encodings(start, end, width, device, dtype)
    end_of_table = max(512, 1 << (end - 1).bit_length())
    return cached_encodings(0, end_of_table, width, device, dtype)[start:end]


@lru_cache(maxsize=8)
def cached_encodings(
    start: int, end: int, width: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, "S D"]:
    """The encodings of positions on a device; cached."""
    with torch.inference_mode(False):  # a cached inference tensor would fail in training
        return copy_to_device(compute_encodings(torch.arange(start, end), width).to(dtype), device)


def compute_encodings(positions: Int[Tensor, "*shape"], width: int) -> Float[Tensor, "*shape D"]:
    """sin(p / 10000^(2c/D)) for c = 0 .. D/2 - 1, then cos, of any p (Vaswani et al. 2017, 3.5)."""
    precise = torch.float32 if positions.device.type == "mps" else torch.float64
    channels = torch.arange(0, width, 2, dtype=precise, device=positions.device)
    frequencies = torch.exp(-math.log(10_000) / width * channels)
    angles = positions.to(precise)[..., None] * frequencies
    return torch.cat([angles.sin(), angles[..., : width // 2].cos()], -1)
