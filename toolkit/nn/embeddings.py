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
    norm and the dropout and without a norm of its own (Clark et al. 2020, section 3.2).
    """

    def __init__(
        self,
        *,
        words: int,
        types: int,
        max_positions: int | None,
        hidden_position: bool = False,
        inner: int,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.words, self.types = nn.Embedding(words, inner), nn.Embedding(types, inner)
        self.positions = None
        if max_positions is not None:
            self.positions = nn.Embedding(max_positions + hidden_position, inner)
        self.hidden_position = hidden_position
        self.norm, self.dropout = nn.LayerNorm(inner, eps=NORM_EPS), Dropout(dropout)
        self.widen = nn.Linear(inner, width) if inner != width else nn.Identity()

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        return self.widen(self.dropout(self.looked_up(tokens, positions, segments)))

    def looked_up(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S E"]:
        """LN(word + type [+ position]): what tables and norm give, as wide as they are."""
        x = self.words(tokens)
        x = x + type_vectors(self.types, segments)
        if self.positions is not None:
            rows = self.positions.num_embeddings
            if positions is None:
                refuse_long(tokens.shape[1], rows - self.hidden_position)
                x = x + self.positions.weight[: tokens.shape[1]]
            else:
                x = x + self.positions(position_rows(positions, rows, hidden=self.hidden_position))
        normed: Tensor = self.norm(x)
        return normed


class BorrowedEmbeddings(nn.Module):
    """W dropout(LN(word + type [+ position])) with another encoder's tables and norm.

    Dropout and W are its own (Clark et al. 2020, code). The lender stays out of this module's
    parts, so that tables are counted, saved, wrapped and updated once.
    """

    def __init__(self, lender: Embeddings, width: int) -> None:
        super().__init__()
        self._lender = (lender,)
        self.dropout = Dropout(lender.dropout.rate)
        inner = lender.words.embedding_dim
        self.widen = nn.Linear(inner, width) if inner != width else nn.Identity()

    @property
    def words(self) -> nn.Embedding:
        return self._lender[0].words

    @property
    def positions(self) -> nn.Embedding | None:
        return self._lender[0].positions

    @property
    def hidden_position(self) -> bool:
        return self._lender[0].hidden_position

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        return self.widen(self.dropout(self._lender[0].looked_up(tokens, positions, segments)))


def type_vectors(types: nn.Embedding, segments: Tensor | None) -> Tensor:
    """Vectors of the token types; with a single row both texts of a pair have it, as in RoBERTa."""
    if segments is None or types.num_embeddings == 1:
        return types.weight[0]
    found: Tensor = types(segments)
    return found


def refuse_long(length: int, limit: int) -> None:
    if length > limit:
        raise ToolkitError(
            f"sentences must have at most arch.max_positions = {limit} tokens where there is a "
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
