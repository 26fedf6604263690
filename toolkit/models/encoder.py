"""The Transformer encoder of the architectures that differ in attention only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, Below, PositiveInt, Rate
from toolkit.models.interface import (
    ArchConfig,
    Encoded,
    EncoderModel,
    Inputs,
    LayeredEncoder,
    Sizes,
)
from toolkit.models.packing import Packing, list_rows
from toolkit.nn.attention import Attention, Offsets, SequenceContext
from toolkit.nn.embeddings import Embeddings, TiedEmbeddings, check_length
from toolkit.nn.encoder_layer import NORM_EPS, EncoderLayer
from toolkit.nn.init import init_bert_weights
from toolkit.nn.layer_stack import LayerStack
from toolkit.nn.ops.relative_attention import SentenceRows, kernel_runs


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(ArchConfig):
    """Options shared by the encoder architectures."""

    layers: PositiveInt = 12
    """Number of layers, each attention and a feed-forward network."""
    width: PositiveInt = 768
    """Width of the hidden states (hidden size); a multiple of heads."""
    heads: PositiveInt = 12
    """Number of attention heads."""
    feed_forward_width: PositiveInt | None = None
    """Inner width of the feed-forward networks; by default 4 x width."""
    embedding_width: PositiveInt | None = None
    """Width of the embedding tables, projected to the model's width; by default width."""
    max_positions: PositiveInt = 128
    """Rows of the absolute position table, if any: maximum number of tokens per sentence."""
    hidden_position_embedding: bool = False
    """Add a row for hidden positions to the position table, as required by task mpm."""
    token_types: PositiveInt = 2
    """Rows of the token type table."""
    norm_epsilon: Annotated[float, Above(0), Below(1)] = NORM_EPS
    """Epsilon of the layer norms: 1e-12 in BERT, 1e-5 in RoBERTa."""
    dropout: Rate = 0.1
    """Dropout rate after the embeddings and after each sublayer."""
    attention_dropout: Rate = 0.1
    """Dropout rate of the attention weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple("width", self.width, "heads", self.heads)

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def max_length(self) -> int | None:
        return self.max_positions

    def scaled_options(self, fraction: float) -> dict[str, int]:
        heads = scale_heads(self.heads, fraction)
        options = {"heads": heads, "width": scale_width(self.width, fraction, heads)}
        if self.feed_forward_width is not None:
            options["feed_forward_width"] = scale_width(self.feed_forward_width, fraction)
        return options


def scale_heads(heads: int, fraction: float) -> int:
    """This fraction of the heads, rounded down, at least one; 0.333 of 12 are 4."""
    return max(1, int(heads * fraction + 0.01))


def scale_width(width: int, fraction: float, multiple: int = 1) -> int:
    """The multiple nearest to this fraction of a width, at least one multiple."""
    return multiple * max(1, round(width * fraction / multiple))


def check_multiple(name: str, value: int, of_name: str, of: int) -> None:
    """Raise a ToolkitError unless one option is a multiple of another."""
    if value % of:
        raise ToolkitError(
            f"arch.{name} must be a multiple of arch.{of_name}, but {value} = "
            f"{value // of} x {of} + {value % of}."
        )


class LayerInput(NamedTuple):
    """The input of the first layer."""

    x: Float[Tensor, "B S D"]
    sequence: SequenceContext
    packing: Packing | None = None
    """Where the tokens are, if padding was removed."""


class Encoder(LayeredEncoder):
    """Embeddings, then layers with the architecture's attention."""

    supports_selection = True

    def __init__(
        self,
        c: EncoderConfig,
        sizes: Sizes,
        attention: Callable[[], Attention],
        *,
        absolute_positions: bool,
        takes_positions: bool,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.width, self.takes_positions = c.width, takes_positions
        self.norm_epsilon = c.norm_epsilon
        if c.hidden_position_embedding and not absolute_positions:
            raise ToolkitError(
                "arch.hidden_position_embedding requires a table of absolute positions. Set "
                "arch.absolute_positions too, or omit it."
            )
        self.max_positions = c.max_positions if absolute_positions else None
        self.embeddings: Embeddings | TiedEmbeddings = Embeddings(
            vocabulary_size=sizes["tokens"],
            token_types=c.token_types,
            max_positions=self.max_positions,
            hidden_position_embedding=c.hidden_position_embedding,
            embedding_width=c.embedding_width or c.width,
            width=c.width,
            dropout=c.dropout,
        )
        inner = c.feed_forward_width or 4 * c.width
        layers = [
            EncoderLayer(attention(), c.width, inner, c.dropout, groups) for _ in range(c.layers)
        ]
        self.layers = LayerStack(layers)
        self.head_width = c.head_width
        self.uses_packing = all(layer.attention.accepts_rows for layer in layers)
        self.packs = all(layer.attention.accepts_packed_rows for layer in layers)
        init_bert_weights(self)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = c.norm_epsilon

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embeddings.words

    @property
    def position_embedding(self) -> nn.Embedding | None:
        return self.embeddings.positions if self.embeddings.hidden_position_embedding else None

    def tie_embeddings_to(self, owner: EncoderModel) -> None:
        """Replace the tables and their norm by those of another encoder, which owns them."""
        assert isinstance(owner, Encoder) and isinstance(owner.embeddings, Embeddings)
        self.embeddings = TiedEmbeddings(owner.embeddings, self.width)
        init_bert_weights(self.embeddings)

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        """With `selected`, the last layer's feed-forward network skips all other tokens."""
        x, sequence, packing = self.embed(inputs)
        if packing is None:
            return Encoded(self.layers(x, sequence, selected))
        if selected is None:
            return Encoded(packing.unpack(self.layers(x, sequence)))
        return Encoded(self.layers(x, sequence, packing.find_rows(selected)))

    def layer_states(self, inputs: Inputs) -> list[Float[Tensor, "B S D"]]:
        x, sequence, packing = self.embed(inputs)
        states = self.layers.list_states(x, sequence)
        return states if packing is None else [packing.unpack(state) for state in states]

    def embed(self, inputs: Inputs) -> LayerInput:
        """The input of the first layer."""
        tokens, rows = inputs.tokens, self.find_rows(inputs)
        if self.packs and rows is not None and inputs.packing is not None:
            return self.embed_packed(inputs, inputs.packing)
        offsets = Offsets(inputs.positions, tokens.shape[1], tokens.device)
        x = self.embeddings(tokens, inputs.positions, inputs.segments)
        return LayerInput(x, SequenceContext(offsets, inputs.padding, rows=rows))

    def find_rows(self, inputs: Inputs) -> SentenceRows | None:
        """The sentences among the tokens, if attention runs in one kernel."""
        device, dtype = inputs.tokens.device, self.token_embedding.weight.dtype
        available = self.uses_packing and kernel_runs(device, dtype, self.head_width)
        if not available or (inputs.padding is not None and inputs.packing is None):
            return None
        return list_rows(inputs.tokens, inputs.positions, inputs.packing)

    def embed_packed(self, inputs: Inputs, packing: Packing) -> LayerInput:
        """The input of the first layer, one sentence after another without padding."""
        tokens = packing.pack(inputs.tokens)
        ids = None if inputs.positions is None else packing.pack(inputs.positions)
        segments = None if inputs.segments is None else packing.pack(inputs.segments)
        rows = packing.list_rows(ids)
        if ids is None and self.max_positions is not None:
            check_length(inputs.tokens.shape[1], self.max_positions)
            ids = packing.position_ids()
        sequence = SequenceContext(Offsets(None, tokens.shape[1], tokens.device), rows=rows)
        return LayerInput(self.embeddings(tokens, ids, segments), sequence, packing)
