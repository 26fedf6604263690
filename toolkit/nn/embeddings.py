"""From tokens to the first layer's input."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.blocks import NORM_EPS
from toolkit.nn.dropout import Dropout


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
        inner: int,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.words, self.types = nn.Embedding(words, inner), nn.Embedding(types, inner)
        self.positions = None if max_positions is None else nn.Embedding(max_positions, inner)
        self.norm, self.dropout = nn.LayerNorm(inner, eps=NORM_EPS), Dropout(dropout)
        self.widen = nn.Linear(inner, width) if inner != width else nn.Identity()

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        positions: Int[Tensor, "B S"] | None = None,
        segments: Int[Tensor, "B S"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        x = self.words(tokens)
        x = x + (self.types.weight[0] if segments is None else self.types(segments))
        if self.positions is not None:
            x = x + self.placed(self.positions, positions, tokens.shape[1])
        return self.widen(self.dropout(self.norm(x)))

    def placed(
        self, table: nn.Embedding, positions: Int[Tensor, "B S"] | None, length: int
    ) -> Float[Tensor, "... S E"]:
        """Rows of the position table; None means 0 .. S-1 in every sentence."""
        if positions is not None:
            return table(positions)
        if length > table.num_embeddings:
            raise ToolkitError(
                f"sentences must have at most arch.max_positions = {table.num_embeddings} tokens "
                f"where arch.absolute_positions is on, but one has {length}. Shorten "
                "tokens_per_sample, or train with a larger arch.max_positions."
            )
        return table.weight[:length]
