"""The Transformer encoder of the architectures that differ in attention only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, Below, Layers, NonNegativeInt, Rate, Size
from toolkit.models.interface import (
    ArchConfig,
    Encoded,
    EncoderModel,
    Inputs,
    LayeredEncoder,
    Sizes,
)
from toolkit.models.packing import Packing, list_rows
from toolkit.nn.attention import Attention, Offsets, PositionEmbedding, SequenceContext
from toolkit.nn.attention.absolute import PositionTable, check_length
from toolkit.nn.attention.projections import LinearProjections, split_heads
from toolkit.nn.embeddings import Embeddings
from toolkit.nn.init import init_bert_weights, remove_biases
from toolkit.nn.layers import (
    GATED,
    NORM_EPS,
    Activation,
    FeedForward,
    LayerStack,
    NormName,
    Residual,
    TransformerLayer,
    build_norm,
)
from toolkit.nn.ops.kernel_inputs import SentenceRows
from toolkit.nn.ops.layer_norm import RMSNorm
from toolkit.nn.ops.relative_attention import kernel_runs


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(ArchConfig):
    """Options shared by the encoder architectures."""

    layers: Layers = 12
    """Number of layers, each attention and a feed-forward network."""
    width: Size = 768
    """Width of the hidden states (hidden size); a multiple of heads."""
    heads: Size = 12
    """Number of attention heads."""
    feed_forward_width: Size | None = None
    """Inner width of the feed-forward networks (intermediate size), for gated ones of each half; by
    default 4 x width, for gated ones 2/3 of it."""
    activation: Activation = "gelu"
    """Activation function of the feed-forward networks. geglu, swiglu: gated by a second linear map
    (GLU). geglu_tanh: geglu with an approximation of gelu."""
    pre_norm: bool = False
    """Normalize the input of each sublayer, and the last states, instead of the sum after it. Deep
    models train more easily with it."""
    norm: NormName = "layer"
    """Normalization: LayerNorm (layer), also without gain and bias (plain), or RMSNorm without
    centering and bias (rms)."""
    biases: bool = True
    """Biases of linear maps and layer norms, also in heads that predict tokens. Convolutions and
    grouped maps always have them."""
    embedding_width: Size | None = None
    """Width of the embedding tables, projected to the model's width; by default width."""
    max_positions: Size = 128
    """Rows of the absolute position table, if any: maximum number of tokens per sentence."""
    hidden_position_embedding: bool = False
    """Add a row for hidden positions to the position table, which task mpm requires of a table."""
    token_types: NonNegativeInt = 2
    """Rows of the token type table; 0 disables it."""
    norm_epsilon: Annotated[float, Above(0), Below(1)] = NORM_EPS
    """Epsilon of the norms: 1e-12 in BERT, 1e-5 in RoBERTa, 1e-7 in DeBERTa."""
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
    def inner_width(self) -> int:
        """Inner width of the feed-forward networks; by default 4 x width, and for a gated
        activation 2/3 of it in multiples of 8, for as many parameters.
        """
        default = 8 * round(self.width / 3) if self.activation in GATED else 4 * self.width
        return self.feed_forward_width or default

    @property
    def projects_embeddings(self) -> bool:
        """Whether a linear map projects the embeddings to the width of the model."""
        return (self.embedding_width or self.width) != self.width

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


LayerInput = tuple[Float[Tensor, "B S D"], SequenceContext, Packing | None]
"""The input of the first layer, and where the tokens are if padding was removed."""


class Encoder(LayeredEncoder):
    """Embeddings, then layers with the architecture's attention."""

    supports_selection = True

    def __init__(
        self,
        c: EncoderConfig,
        sizes: Sizes,
        attention: Callable[[], Attention],
        *,
        takes_positions: bool,
        positions: PositionEmbedding | None = None,
        offset_embedding: nn.Module | None = None,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.width, self.takes_positions = c.width, takes_positions
        self.norm_epsilon, self.norm_name, self.has_biases = c.norm_epsilon, c.norm, c.biases
        width, hidden = c.embedding_width or c.width, c.hidden_position_embedding
        if hidden and not isinstance(positions, PositionTable):
            raise ToolkitError(
                "arch.hidden_position_embedding requires a table of absolute positions. Add "
                "learned to arch.positions, or omit it."
            )
        self.max_positions = None if positions is None else positions.max_positions
        self.embeddings = Embeddings(
            nn.Embedding(sizes["tokens"], width),
            nn.Embedding(c.token_types, width) if c.token_types else None,
            positions,
            build_norm(c.norm, width),
            dropout=c.dropout,
            width=c.width,
        )
        self.offset_embedding, self.value_tables = offset_embedding, nn.ModuleList()
        layers = [build_layer(c, attention(), groups) for _ in range(c.layers)]
        if c.pre_norm and not c.projects_embeddings:
            layers[0].after_attention.norm = nn.Identity()  # embeddings are normalized
        self.layers = LayerStack(layers)
        self.norm: nn.Module = build_norm(c.norm, c.width) if c.pre_norm else nn.Identity()
        self.head_width = c.head_width
        self.uses_packing = all(layer.attention.accepts_rows for layer in layers)
        self.packs = all(layer.attention.accepts_packed_rows for layer in layers)
        self.can_be_causal = all(layer.attention.can_be_causal for layer in layers)
        rotates = any(layer.attention.project.changes_content for layer in layers)
        self.reads_ids = positions is not None or rotates
        init_bert_weights(self)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm | RMSNorm):
                module.eps = c.norm_epsilon
        if not c.biases:
            remove_biases(self)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embeddings.words

    @property
    def position_embedding(self) -> nn.Embedding | None:
        table = self.embeddings.positions
        return table if isinstance(table, PositionTable) and table.hidden else None

    def tie_embeddings_to(self, owner: EncoderModel) -> None:
        """Replace the tables and their norm by those of another encoder, which owns them."""
        assert isinstance(owner, Encoder)
        self.embeddings = owner.embeddings.share(self.width)
        init_bert_weights(self.embeddings)
        if isinstance(self.embeddings.widen, nn.Linear):
            first = self.layers[0]
            assert isinstance(first, TransformerLayer)
            if isinstance(first.after_attention.norm, nn.Identity):  # embeddings were normalized
                norm = build_norm(self.norm_name, self.width, self.norm_epsilon)
                first.after_attention.norm = norm
            if not self.has_biases:
                remove_biases(self)

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        """With `selected`, the last layer's feed-forward network skips all other tokens."""
        x, sequence, packing = self.embed(inputs)
        rows = packing.find_rows(selected) if packing and selected is not None else selected
        states = self.norm(self.layers(x, sequence, rows))
        return Encoded(packing.unpack(states) if packing and selected is None else states)

    def layer_states(self, inputs: Inputs) -> list[Float[Tensor, "B S D"]]:
        x, sequence, packing = self.embed(inputs)
        *states, last = self.layers.list_states(x, sequence)
        states.append(self.norm(last))
        return states if packing is None else [packing.unpack(state) for state in states]

    def embed(self, inputs: Inputs) -> LayerInput:
        """The input of the first layer."""
        tokens, rows = inputs.tokens, self.find_rows(inputs)
        if self.packs and rows is not None and inputs.packing is not None:
            return self.embed_packed(inputs, inputs.packing)
        offsets = find_offsets(inputs)
        x = self.embeddings(tokens, inputs.positions, inputs.segments)
        causal, values = inputs.causal, self.layer_values(tokens)
        sequence = SequenceContext(offsets, inputs.padding, causal=causal, rows=rows, values=values)
        if self.offset_embedding is not None:
            vectors, offset_rows = self.offset_embedding(offsets.max_offset)
            sequence = sequence._replace(offset_vectors=vectors, offset_rows=offset_rows)
        return x, sequence, None

    def add_value_tables(self, number: int) -> None:
        """Embeddings of the tokens that layers add to their values."""
        inner = self.projections.qkv.out_features // self.projections.parts
        tables = (nn.Embedding(self.token_embedding.num_embeddings, inner) for _ in range(number))
        self.value_tables.extend(tables)
        init_bert_weights(self.value_tables)

    @property
    def projections(self) -> LinearProjections:
        """Those of the first layer."""
        first = self.layers[0]
        assert isinstance(first, TransformerLayer)
        assert isinstance(first.attention.project, LinearProjections), "switches check it"
        return first.attention.project

    def layer_values(self, tokens: Int[Tensor, "B S"]) -> dict[str, Tensor]:
        """Values by head that layers add to theirs."""
        return {
            str(number): split_heads(table(tokens), self.projections.heads)
            for number, table in enumerate(self.value_tables)
        }

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
        if ids is None and self.reads_ids:
            ids = packing.position_ids()
        offsets = Offsets(ids, tokens.shape[1], tokens.device)
        values = self.layer_values(tokens)
        sequence = SequenceContext(offsets, causal=inputs.causal, rows=rows, values=values)
        return self.embeddings(tokens, ids, segments), sequence, packing


def build_layer(c: EncoderConfig, attention: Attention, groups: int) -> TransformerLayer:
    """A layer with the feed-forward network and the norms that the options choose."""
    feed_forward = FeedForward(c.width, c.inner_width, groups, c.activation)
    residual = partial(Residual, c.width, c.dropout, pre_norm=c.pre_norm, norm=c.norm)
    return TransformerLayer(attention, feed_forward, residual=residual)


def find_offsets(inputs: Inputs) -> Offsets:
    """Offsets between the position ids, with a bound of them that a GPU is asked for if unknown."""
    tokens, positions = inputs.tokens, inputs.positions
    if positions is None or positions.device.type == "cpu":
        return Offsets(positions, tokens.shape[1], tokens.device)
    highest = inputs.max_position
    limit = 1 + (int(positions.max()) if highest is None else highest)
    return Offsets(positions, tokens.shape[1], tokens.device, limit)
