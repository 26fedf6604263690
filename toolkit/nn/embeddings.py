"""From tokens to the first layer's input."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.common.positions import HIDDEN_POSITION
from toolkit.nn.encoder_layer import NORM_EPS
from toolkit.nn.ops.dropout import Dropout


class Embeddings(nn.Module):
    """W dropout(LN(word + type [+ position])) (Devlin et al. 2019, figure 2).

    The tables are `inner` wide; a linear map widens the result where the model is wider, after the
    norm and the dropout and without a separate norm (Clark et al. 2020, section 3.2).
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        token_types: int,
        max_positions: int | None,
        hidden_position_embedding: bool = False,
        embedding_width: int,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.words, self.types = (
            nn.Embedding(vocabulary_size, embedding_width),
            nn.Embedding(token_types, embedding_width),
        )
        self.positions = None
        if max_positions is not None:
            self.positions = nn.Embedding(
                max_positions + hidden_position_embedding, embedding_width
            )
        self.hidden_position_embedding = hidden_position_embedding
        self.norm, self.dropout = nn.LayerNorm(embedding_width, eps=NORM_EPS), Dropout(dropout)
        self.widen = (
            nn.Linear(embedding_width, width) if embedding_width != width else nn.Identity()
        )

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
        """LN(word + type [+ position]): what tables and norm give, as wide as they are."""
        x = self.words(tokens)
        x = x + token_type_vectors(self.types, segments)
        if self.positions is not None:
            rows = self.positions.num_embeddings
            if positions is None:
                check_length(tokens.shape[1], rows - self.hidden_position_embedding)
                x = x + self.positions.weight[: tokens.shape[1]]
            else:
                x = x + self.positions(
                    position_rows(positions, rows, hidden=self.hidden_position_embedding)
                )
        normed: Tensor = self.norm(x)
        return normed


class TiedEmbeddings(nn.Module):
    """W dropout(LN(word + type [+ position])) with another encoder's tables and norm.

    Dropout and W are its own (Clark et al. 2020, code). The lender stays out of this module's
    parts, so that tables are counted, saved, wrapped and updated once.
    """

    def __init__(self, owner: Embeddings, width: int) -> None:
        super().__init__()
        self._owner = (owner,)
        self.dropout = Dropout(owner.dropout.rate)
        inner = owner.words.embedding_dim
        self.widen = nn.Linear(inner, width) if inner != width else nn.Identity()

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


def token_type_vectors(types: nn.Embedding, segments: Tensor | None) -> Tensor:
    """Vectors of the token types; with a single row both texts of a pair have it, as in RoBERTa."""
    if segments is None or types.num_embeddings == 1:
        return types.weight[0]
    found: Tensor = types(segments)
    return found


def check_length(length: int, limit: int) -> None:
    if length > limit:
        raise ToolkitError(
            f"sentences must have at most arch.max_positions = {limit} tokens with a "
            f"table of positions, but one has {length}. Shorten tokens_per_sample, or train with "
            f"a larger arch.max_positions."
        )


def position_rows(positions: Int[Tensor, "B S"], rows: int, *, hidden: bool) -> Int[Tensor, "B S"]:
    """Rows of a table for position ids; with `hidden`, its last one is that of hidden positions.

    On a GPU ids are not looked at, which would wait for it.
    """
    if positions.device.type == "cpu":
        least, most = int(positions.min()), int(positions.max())
        if least < (HIDDEN_POSITION if hidden else 0) or most >= rows - hidden:
            known = f" or be {HIDDEN_POSITION} where hidden," if hidden else ""
            raise ToolkitError(
                f"position ids must lie in 0 .. {rows - hidden - 1},{known} but reach from {least} "
                f"to {most}. Train with a larger arch.max_positions."
            )
    return torch.where(positions < 0, rows - 1, positions) if hidden else positions
