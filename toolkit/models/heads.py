"""What turns an encoder's states into predictions."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.models.interface import HeadColumns
from toolkit.nn.encoder_layer import NORM_EPS
from toolkit.nn.init import init_bert_weights
from toolkit.nn.ops.dropout import Dropout


def head_columns(encoder: Any) -> HeadColumns:
    """Which columns of its states an encoder means for tokens and for positions: all, if silent."""
    everything = slice(0, encoder.width)
    return getattr(encoder, "columns", HeadColumns(everything, everything))


class TiedHead(nn.Module):
    """E LN(gelu(W x + b)) + c with E an embedding table (Devlin et al. 2019).

    The table is given with every call and never registered here, so that it is counted, saved,
    wrapped and updated once.
    """

    def __init__(self, encoder: Any, columns: slice, classes: int, table_width: int) -> None:
        super().__init__()
        self.columns, epsilon = columns, getattr(encoder, "norm_epsilon", NORM_EPS)
        self.transform = nn.Linear(columns.stop - columns.start, table_width)
        self.norm = nn.LayerNorm(table_width, eps=epsilon)
        self.bias = nn.Parameter(torch.zeros(classes))
        init_bert_weights(self)

    def forward(
        self, states: Float[Tensor, "N D"], table: Float[Tensor, "V E"]
    ) -> Float[Tensor, "N V"]:
        states = states[:, self.columns]
        return F.linear(self.norm(F.gelu(self.transform(states))), table, self.bias)


class TokenHead(TiedHead):
    """Scores of all tokens, tied to the word table."""

    def __init__(self, encoder: Any) -> None:
        words = encoder.token_embedding
        columns, symbols = head_columns(encoder).tokens, words.num_embeddings
        super().__init__(encoder, columns, symbols, words.embedding_dim)


class PositionHead(TiedHead):
    """Scores of all positions, tied to the position table without its last row, the hidden one."""

    def __init__(self, encoder: Any) -> None:
        table = encoder.position_embedding
        positions = table.num_embeddings - 1
        columns = head_columns(encoder).positions
        super().__init__(encoder, columns, positions, table.embedding_dim)


class DetectionHead(nn.Module):
    """w . gelu(W x + b) + c: whether a token was replaced (Clark et al. 2020, code)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform, self.score = nn.Linear(width, width), nn.Linear(width, 1)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        return self.score(F.gelu(self.transform(states)))[:, 0]  # (N, 1) -> (N)


class Pooler(nn.Linear):
    """tanh(W x_[CLS] + b): what sums a sentence up (Devlin et al. 2019).

    As `task.pooler` it takes the weights that converted models bring for it.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, width)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        return super().forward(states).tanh()


class PreciseLinear(nn.Linear):
    """W x + b in fp32 at least: in bf16 many answers would be equally good, and numbers rounded."""

    def forward(self, states: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape C"]:
        with torch.autocast(states.device.type, enabled=False):
            return super().forward(states.to(torch.promote_types(states.dtype, torch.float32)))


class SpanHead(PreciseLinear):
    """W x + b for every place: how well an answer begins there, and how well it ends there."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)
        init_bert_weights(self)


class SentenceHead(nn.Module):
    """W dropout(x) + b, x the pooled or the plain state of a sentence's first token."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.output = Dropout(dropout), PreciseLinear(width, outputs)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        return self.output(self.dropout(states))


class OptionHead(nn.Module):
    """w . dropout(x) + b, x the pooled or the plain state of a sentence's first token."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.output = Dropout(dropout), PreciseLinear(width, 1)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "B D"]) -> Float[Tensor, " B"]:
        return self.output(self.dropout(states))[:, 0]  # (B, 1) -> (B)
