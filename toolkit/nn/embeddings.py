"""The input of the first layer: embeddings of tokens, token types and positions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.common.errors import ToolkitError
from toolkit.nn.init import copy_to_device
from toolkit.nn.ops.dropout import Dropout


class PositionEmbedding(nn.Module, ABC):
    """Vectors of positions, added to those of the tokens."""

    @abstractmethod
    def vectors(
        self, x: Float[Tensor, "B S _"], ids: Int[Tensor, "B S"] | None, start: int
    ) -> Float[Tensor, "#B S E"]:
        """Vectors of the position ids of tokens x; None means start, start + 1, ... in each row."""


class PositionTable(PositionEmbedding, nn.Embedding):
    """A learned vector per position (Devlin et al. 2019); if `hidden` the last row is that of
    hidden positions.
    """

    def __init__(self, positions: int, width: int, *, hidden: bool = False) -> None:
        super().__init__(positions + hidden, width)
        self.hidden = hidden

    def vectors(
        self, x: Float[Tensor, "B S _"], ids: Int[Tensor, "B S"] | None, start: int = 0
    ) -> Float[Tensor, "#B S E"]:
        if ids is None:
            end = start + x.shape[1]
            check_length(end, self.num_embeddings - self.hidden)
            return self.weight[None, start:end]
        return self(position_rows(ids, self.num_embeddings, hidden=self.hidden))


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
            vectors = encode_positions(ids, width, x.dtype)
        return vectors if self.scale == 1 else self.scale * vectors


class Embeddings(nn.Module):
    """W dropout(norm(s word [+ type] [+ position])).

    Encoders have a norm and s = 1 (Devlin et al. 2019, Fig. 2). W projects to another `width`,
    after the norm and the dropout and without a separate norm (Clark et al. 2020, section 3.2).
    Generative models have s = sqrt(D) and no norm (Vaswani et al. 2017, sections 3.4 and 3.5).

    Parts that are `shared` belong to another module. They are not submodules here, so that they are
    counted, saved, wrapped and updated once.
    """

    words: nn.Embedding
    types: nn.Embedding | None
    positions: PositionEmbedding | None
    norm: nn.Module | None

    def __init__(
        self,
        words: nn.Embedding,
        types: nn.Embedding | None = None,
        positions: PositionEmbedding | None = None,
        norm: nn.Module | None = None,
        *,
        dropout: float,
        width: int,
        scale: float = 1.0,
        shared: Collection[str] = (),
    ) -> None:
        super().__init__()
        add_parts(self, shared, words=words, types=types, positions=positions, norm=norm)
        self.scale, self.dropout = scale, Dropout(dropout)
        self.widen = build_projection(words.embedding_dim, width)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
        start: int = 0,
    ) -> Float[Tensor, "B S D"]:
        """Without `positions`, the first token of each sentence is at `start`."""
        x: Tensor = self.words(tokens)
        if self.scale != 1:
            x = self.scale * x
        if self.types is not None:
            x = x + token_type_vectors(self.types, segments)
        if self.positions is not None:
            x = x + self.positions.vectors(x, positions, start)
        x = x if self.norm is None else self.norm(x)
        return self.widen(self.dropout(x))

    def share(self, width: int) -> Embeddings:
        """The same tables and norm; dropout and W are not shared (Clark et al. 2020, code)."""
        parts = {name: getattr(self, name) for name in ("words", "types", "positions", "norm")}
        return Embeddings(**parts, dropout=self.dropout.rate, width=width, shared=parts)


def add_parts(owner: nn.Module, shared: Collection[str], **parts: nn.Module | None) -> None:
    """Set attributes of a module; those that are `shared` do not become submodules."""
    for name, part in parts.items():
        if name in shared:
            vars(owner)[name] = part
        else:
            setattr(owner, name, part)


def build_projection(width: int, new_width: int) -> nn.Module:
    """A linear map between two widths; the identity if they are equal."""
    return nn.Linear(width, new_width) if width != new_width else nn.Identity()


def token_type_vectors(types: nn.Embedding, segments: Tensor | None) -> Tensor:
    """Vectors of the token types; a single row serves both texts of a pair, as in RoBERTa."""
    if segments is None or types.num_embeddings == 1:
        return types.weight[0]
    vectors: Tensor = types(segments)
    return vectors


def check_length(length: int, limit: int) -> None:
    """Raise a ToolkitError if a sentence is longer than the position table."""
    if length > limit:
        raise ToolkitError(
            f"sentences must have at most arch.max_positions = {limit} tokens with a "
            f"table of positions, but one has {length}. Shorten tokens_per_sample, or train with "
            f"a larger arch.max_positions."
        )


def position_rows(positions: Int[Tensor, "B S"], rows: int, *, hidden: bool) -> Int[Tensor, "B S"]:
    """Rows of a table for position ids; if `hidden`, the last row is that of hidden positions.

    Ids on a GPU are not checked, which would synchronize it; the trainer did before.
    """
    if positions.device.type == "cpu":
        check_position_ids(positions, rows - hidden, hidden=hidden)
    return torch.where(positions < 0, rows - 1, positions) if hidden else positions


def check_position_ids(positions: Int[Tensor, "B S"], limit: int, *, hidden: bool) -> None:
    """Ids must be below the limit; if `hidden`, they may be HIDDEN_POSITION."""
    low, high = find_range(positions)
    if low < (HIDDEN_POSITION if hidden else 0) or high >= limit:
        exception = f" or be {HIDDEN_POSITION} where hidden," if hidden else ""
        raise ToolkitError(
            f"position ids must lie in 0 .. {limit - 1},{exception} but range from {low} to "
            f"{high}. Train with a larger arch.max_positions."
        )


def check_token_ids(tokens: Int[Tensor, "B S"], rows: int) -> None:
    """Raise a ToolkitError if a token id has no row in the embedding table."""
    low, high = find_range(tokens)
    if low < 0 or high >= rows:
        raise ToolkitError(
            f"token ids must lie in 0 .. {rows - 1} for this model, but range from {low} to "
            f"{high}. Preprocess the data with the model's tokenizer."
        )


def find_range(ids: Int[Tensor, "B S"]) -> tuple[int, int]:
    """The least and the greatest id."""
    low, high = ids.aminmax()
    return int(low), int(high)


def sinusoidal_encodings(
    start: int,
    end: int,
    width: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "S D"]:
    """sin and cos of p / 10000^(2c/D), p = start .. end - 1 (Vaswani et al. 2017, section 3.5).

    Sines are in the first half of the columns and cosines in the second, as in most code since
    then; the paper alternates them.
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
        encodings = compute_encodings(torch.arange(start, end), width)
        return copy_to_device(encodings.to(dtype), device)


def encode_positions(
    positions: Int[Tensor, "*shape"], width: int, dtype: torch.dtype
) -> Float[Tensor, "*shape D"]:
    """The encodings of position ids, which may be negative."""
    return compute_encodings(positions, width).to(dtype)


def compute_encodings(positions: Int[Tensor, "*shape"], width: int) -> Float[Tensor, "*shape D"]:
    """sin(p / 10000^(2c/D)) for c = 0 .. D/2 - 1, then cos (Vaswani et al. 2017, section 3.5)."""
    precise = torch.float32 if positions.device.type == "mps" else torch.float64
    channels = torch.arange(0, width, 2, dtype=precise, device=positions.device)
    frequencies = torch.exp(-math.log(10_000) / width * channels)
    angles = positions.to(precise)[..., None] * frequencies
    return torch.cat([angles.sin(), angles[..., : width // 2].cos()], -1)
