"""Prediction heads on an encoder's states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.models.interface import EncoderModel
from toolkit.nn.init import INIT_STD, init_bert_weights, remove_biases
from toolkit.nn.norms import build_norm
from toolkit.nn.ops.aligned_linear import aligned_linear
from toolkit.nn.ops.dropout import Dropout

HeadKind = Literal["pooled", "plain", "gelu"]


class TiedHead(nn.Module):
    """E LN(gelu(W x + b)) + c with E an embedding table (Devlin et al. 2019).

    The table is an argument, not a parameter, so that it is counted, saved, wrapped and updated
    once.
    """

    def __init__(
        self, encoder: EncoderModel, columns: slice, classes: int, table_width: int
    ) -> None:
        super().__init__()
        self.columns = columns
        self.transform = nn.Linear(columns.stop - columns.start, table_width)
        self.norm = build_norm(encoder.norm_name, table_width, encoder.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(classes))
        init_bert_weights(self)
        if not encoder.has_biases:
            remove_biases(self)

    def forward(
        self,
        states: Float[Tensor, "N D"],
        table: Float[Tensor, "V E"],
        output: Callable[[Tensor, Tensor, Tensor], object] = aligned_linear,
    ) -> object:
        """`output` of LN(gelu(W x + b)), the table and the bias: the logits, unless it is given."""
        hidden = self.norm(F.gelu(self.transform(states[:, self.columns])))  # (N, D) -> (N, E)
        return output(hidden, table, self.bias)


class TokenHead(TiedHead):
    """Scores of all tokens, tied to the token embedding."""

    def __init__(self, encoder: EncoderModel) -> None:
        table, columns = encoder.token_embedding, encoder.head_columns.tokens
        super().__init__(encoder, columns, table.num_embeddings, table.embedding_dim)


class PositionHead(TiedHead):
    """Scores of all positions, tied to the position embedding without its hidden row.

    Encoders without one have a table of `positions` rows here.
    """

    def __init__(self, encoder: EncoderModel, positions: int) -> None:
        tied, columns = encoder.position_embedding, encoder.head_columns.positions
        classes = positions if tied is None else tied.num_embeddings - 1
        width = (tied or encoder.token_embedding).embedding_dim
        super().__init__(encoder, columns, classes, width)
        own = None if tied is not None else nn.Parameter(torch.empty(classes, width))
        self.table = own if own is None else nn.init.normal_(own, std=INIT_STD)

    def scores(self, encoder: EncoderModel, states: Float[Tensor, "N D"]) -> Float[Tensor, "N P"]:
        """The logits of all positions."""
        table, tied = self.table, encoder.position_embedding
        if table is None:
            assert tied is not None, "the encoder is the one the head was built for"
            table = tied.weight[:-1]
        logits = self(states, table)
        assert isinstance(logits, Tensor)
        return logits


class DetectionHead(nn.Module):
    """w . gelu(W x + b) + c: whether a token was replaced (Clark et al. 2020, code)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform, self.score = nn.Linear(width, width), nn.Linear(width, 1)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        return self.score(F.gelu(self.transform(states)))[:, 0]  # (N, 1) -> (N)


class Pooler(nn.Linear):
    """f(W x_[CLS] + b), f = tanh: the sentence representation (Devlin et al. 2019).

    With f = gelu it is that of ELECTRA and ConvBERT in Transformers. Named `task.pooler`, it loads
    the pooler weights of converted models.
    """

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__(width, width)
        self.activation = activation
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        return self.activation(super().forward(states))


def build_pooler(head: HeadKind, width: int) -> nn.Module:
    """What a task's head predicts from, computed from the state of the first token."""
    if head == "plain":
        return nn.Identity()
    return Pooler(width, F.gelu if head == "gelu" else torch.tanh)


class PreciseLinear(nn.Linear):
    """W x + b in fp32 at least: bf16 would cause ties between answers and round numbers."""

    def forward(self, states: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape C"]:
        with torch.autocast(states.device.type, enabled=False):
            return super().forward(states.to(torch.promote_types(states.dtype, torch.float32)))


class SpanHead(PreciseLinear):
    """W x + b: two scores per token, of answers that start and that end there."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)
        init_bert_weights(self)


class SentenceHead(nn.Module):
    """W dropout(x) + b, with x the state of a sentence's first token, pooled or not."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.output = Dropout(dropout), PreciseLinear(width, outputs)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        return self.output(self.dropout(states))


class OptionHead(SentenceHead):
    """w . dropout(x) + b: one score per option, with x as in SentenceHead."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(width, 1, dropout)

    def forward(self, states: Float[Tensor, "B D"]) -> Float[Tensor, " B"]:
        return super().forward(states)[:, 0]  # (B, 1) -> (B)
