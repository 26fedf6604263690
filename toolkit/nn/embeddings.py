"""Token, token type and position embeddings: the input of the first layer."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.arrays import HIDDEN_POSITION
from toolkit.common.errors import ToolkitError
from toolkit.nn.norms import NormName, build_norm
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.sinusoidal import encode_positions, sinusoidal_encodings


class Embeddings(nn.Module):
    """W dropout(LN(word [+ type] [+ position])) (Devlin et al. 2019, Fig. 2).

    The tables have `embedding_width` columns. W projects to another `width`, after the norm and the
    dropout and without a separate norm (Clark et al. 2020, section 3.2). Sinusoidal positions are
    divided by sqrt(embedding_width). As a norm follows, this equals multiplying the other vectors
    by it (Vaswani et al. 2017, section 3.4).
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        token_types: int,
        max_positions: int | None,
        sinusoidal_positions: bool = False,
        hidden_position_embedding: bool = False,
        embedding_width: int,
        width: int,
        dropout: float,
        norm: NormName = "layer",
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary_size, embedding_width)
        self.types = nn.Embedding(token_types, embedding_width) if token_types else None
        self.positions = None
        if max_positions is not None:
            rows = max_positions + hidden_position_embedding
            self.positions = nn.Embedding(rows, embedding_width)
        self.sinusoidal_positions = sinusoidal_positions
        self.hidden_position_embedding = hidden_position_embedding
        self.norm, self.dropout = build_norm(norm, embedding_width), Dropout(dropout)
        self.widen = build_projection(embedding_width, width)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        return self.widen(self.dropout(self.embed(tokens, positions, segments)))

    def embed(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S E"]:
        """LN(word [+ type] [+ position]), with the width of the tables."""
        x: Tensor = self.words(tokens)
        if self.types is not None:
            x = x + token_type_vectors(self.types, segments)
        if self.positions is not None:
            hidden = self.hidden_position_embedding
            x = x + position_vectors(self.positions, positions, tokens.shape[1], hidden=hidden)
        if self.sinusoidal_positions:
            x = x + x.shape[-1] ** -0.5 * sinusoidal_vectors(positions, tokens.shape[1], x)
        normed: Tensor = self.norm(x)
        return normed


class TiedEmbeddings(nn.Module):
    """W dropout(LN(word [+ type] [+ position])) with another encoder's tables and norm.

    Dropout and W are not shared (Clark et al. 2020, code). The owner is not registered as a
    submodule, so that tables are counted, saved, wrapped and updated once.
    """

    def __init__(self, owner: Embeddings, width: int) -> None:
        super().__init__()
        self._owner = (owner,)
        self.dropout = Dropout(owner.dropout.rate)
        self.widen = build_projection(owner.words.embedding_dim, width)

    @property
    def words(self) -> nn.Embedding:
        return self._owner[0].words

    @property
    def positions(self) -> nn.Embedding | None:
        return self._owner[0].positions

    @property
    def hidden_position_embedding(self) -> bool:
        return self._owner[0].hidden_position_embedding

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        return self.widen(self.dropout(self._owner[0].embed(tokens, positions, segments)))


def build_projection(width: int, new_width: int) -> nn.Module:
    """A linear map between two widths; the identity if they are equal."""
    return nn.Linear(width, new_width) if width != new_width else nn.Identity()


def token_type_vectors(types: nn.Embedding, segments: Tensor | None) -> Tensor:
    """Vectors of the token types; a single row serves both texts of a pair, as in RoBERTa."""
    if segments is None or types.num_embeddings == 1:
        return types.weight[0]
    vectors: Tensor = types(segments)
    return vectors


def position_vectors(
    table: nn.Embedding, positions: Int[Tensor, "B S"] | None, length: int, *, hidden: bool
) -> Float[Tensor, "#B S E"]:
    """Vectors of the position ids; None means 0 .. S-1 in every sentence."""
    rows = table.num_embeddings
    if positions is None:
        check_length(length, rows - hidden)
        return table.weight[None, :length]
    return table(position_rows(positions, rows, hidden=hidden))


def sinusoidal_vectors(
    positions: Int[Tensor, "B S"] | None, length: int, like: Float[Tensor, "B S E"]
) -> Float[Tensor, "#B S E"]:
    """Sinusoidal encodings of the position ids; None means 0 .. S-1 in every sentence."""
    width, device = like.shape[-1], like.device
    if positions is None:
        return sinusoidal_encodings(0, length, width, device, like.dtype)[None]
    return encode_positions(positions, width, like.dtype)


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
