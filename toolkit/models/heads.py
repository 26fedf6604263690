"""Prediction heads, and the features that they read: the last states, or a mix of all layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.models.interface import EncoderModel, Inputs, LayeredEncoder
from toolkit.nn.init import INIT_STD, init_bert_weights, remove_biases
from toolkit.nn.layers import build_norm, select_tokens
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.linear import aligned_linear

HeadKind = Literal["pooled", "plain", "gelu"]


class TiedHead(nn.Module):
    """E LN(gelu(W x + b)) + c with E an embedding table (Devlin et al. 2019), or soft caps of it by
    the encoder's `logit_cap`. The table is an argument: counted, saved, wrapped and updated once.
    """

    def __init__(
        self, encoder: EncoderModel, columns: slice, classes: int, table_width: int
    ) -> None:
        super().__init__()
        self.columns, self.logit_cap = columns, encoder.logit_cap
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
        output: Callable[..., object] = aligned_linear,
    ) -> object:
        """`output` of LN(gelu(W x + b)), the table, the bias and the cap: the logits by default."""
        hidden = self.norm(F.gelu(self.transform(states[:, self.columns])))  # (N, D) -> (N, E)
        return output(hidden, table, self.bias, self.logit_cap)


def build_token_head(encoder: EncoderModel) -> TiedHead:
    """Scores of all tokens, tied to the token embedding."""
    table, (columns, _) = encoder.token_embedding, encoder.head_columns
    return TiedHead(encoder, columns, table.num_embeddings, table.embedding_dim)


class PositionHead(TiedHead):
    """Scores of all positions, tied to the position embedding without its hidden row; encoders
    without one have a table of `positions` rows here.
    """

    def __init__(self, encoder: EncoderModel, positions: int) -> None:
        tied, (_, columns) = encoder.position_embedding, encoder.head_columns
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
        return self(states, table)


class DetectionHead(nn.Module):
    """w . gelu(W x + b) + c: whether a token was replaced (Clark et al. 2020, code)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform, self.score = nn.Linear(width, width), nn.Linear(width, 1)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
        return self.score(F.gelu(self.transform(states)))[:, 0]  # (N, 1) -> (N)


class Pooler(nn.Linear):
    """f(W x_[CLS] + b), f = tanh: the sentence representation (Devlin et al. 2019); gelu as in
    ELECTRA and ConvBERT of Transformers. As `task.pooler` it loads those of converted models.
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

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__(width, outputs)
        init_bert_weights(self)

    def forward(self, states: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape C"]:
        with torch.autocast(states.device.type, enabled=False):
            return super().forward(states.to(torch.promote_types(states.dtype, torch.float32)))


class SentenceHead(nn.Module):
    """W dropout(x) + b, with x the state of a sentence's first token, pooled or not."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.dropout, self.output = Dropout(dropout), PreciseLinear(width, outputs)

    def forward(self, states: Float[Tensor, "N D"]) -> Float[Tensor, "N C"]:
        return self.output(self.dropout(states))


class Features(nn.Module):
    """Maps an encoder and its inputs to vectors of tokens: its last states, or a mix of all layers.

    The mix is g sum_j softmax(w)_j h_j, h_0 the embeddings, h_j layer j (Peters et al. 2018,
    eq. 1). w starts at 0 and g at 1: the mean of all layers. The sum is in fp32 at least.
    """

    def __init__(self, encoder: EncoderModel, *, layer_mixing: bool) -> None:
        super().__init__()
        self.layer_mixing = layer_mixing
        if not layer_mixing:
            return
        if not isinstance(encoder, LayeredEncoder):
            raise ToolkitError(
                f"task.layer_mixing requires the states of all layers, which "
                f"{type(encoder).__name__} does not return. Leave it out, or derive the "
                f"architecture from toolkit.models.interface.LayeredEncoder."
            )
        self.weights = nn.Parameter(torch.zeros(1 + len(encoder.layers)))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " N"] | None = None
    ) -> Float[Tensor, "*tokens D"]:
        """Vectors of all tokens, B x S, or of selected ones, flat indices into B x S."""
        if not self.layer_mixing:
            if selected is None:
                return encoder(inputs).states
            return encoder.select_states(inputs, selected)
        assert isinstance(encoder, LayeredEncoder), "the mixing was made for it"
        layers = encoder.layer_states(inputs)
        if selected is not None:
            layers = [select_tokens(h, selected)[0] for h in layers]
        shares = (self.scale * self.weights.softmax(0)).split(1)
        mixed = shares[0] * layers[0]
        for share, h in zip(shares[1:], layers[1:], strict=True):
            mixed = mixed + share * h
        return mixed
