"""TACO: attention convolution over disentangled words and positions (Anonymous ACL 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.registry import register_arch
from toolkit.config.declared import Layers, NonNegativeInt, Rate, Size
from toolkit.models.encoder import check_multiple, scale_heads, scale_width
from toolkit.models.interface import (
    ArchConfig,
    Encoded,
    EncoderModel,
    Inputs,
    LayeredEncoder,
    Sizes,
)
from toolkit.nn.attention import (
    Content,
    MixedMaps,
    Offsets,
    Relative,
    RelativeToKey,
    ScoreTerm,
    SequenceContext,
    SharedKeyKernel,
    SharedQueryKernel,
    SummedMaps,
    TwoStreamMaps,
)
from toolkit.nn.attention.absolute import PositionTable
from toolkit.nn.embeddings import add_parts, build_projection, token_type_vectors
from toolkit.nn.init import init_bert_weights
from toolkit.nn.layers import NORM_EPS, LayerStack, StreamLayer, StreamStates, TwoStreamLayer
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.layer_norm import LayerNorm


@dataclass(frozen=True, kw_only=True)
class TacoConfig(ArchConfig):
    """Options of TACO."""

    layers: Layers = 12
    """Number of layers, each attention and a feed-forward network for both streams."""
    word_width: Size = 648
    """Width of the word stream; a multiple of word_heads."""
    position_width: Size = 120
    """Width of the position stream; a multiple of position_heads."""
    word_heads: Size = 12
    """Number of attention heads of the word stream."""
    position_heads: Size = 6
    """Number of attention heads of the position stream."""
    head_width: Size = 64
    """Width of a head's queries and keys in both streams; values have width / heads."""
    relative_width: Size = 768
    """Width of the offset vectors shared by all layers."""
    max_positions: Size = 512
    """Rows of the position table: maximum number of tokens per sentence."""
    attention_convolution: bool = True
    """Mix all attention maps by a 1x1 convolution and PReLU before the softmax; if false, sum those
    of each stream."""
    residual_maps: bool = True
    """Pass the attention maps of each layer to the next."""
    token_types: NonNegativeInt = 0
    """Rows of the token type table; 0 disables it."""
    head_features: Literal["separate", "concat"] = "separate"
    """Features of the prediction heads. separate: tokens from the word stream, positions from the
    position stream; concat: both from both."""
    dropout: Rate = 0.1
    """Dropout rate after the embeddings and after each sublayer."""
    attention_dropout: Rate = 0.1
    """Dropout rate of the attention weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_multiple("word_width", self.word_width, "word_heads", self.word_heads)
        check_multiple("position_width", self.position_width, "position_heads", self.position_heads)

    @property
    def max_length(self) -> int:
        return self.max_positions

    def scaled_options(self, fraction: float) -> dict[str, int]:
        word_heads = scale_heads(self.word_heads, fraction)
        position_heads = scale_heads(self.position_heads, fraction)
        return {
            "relative_width": scale_width(self.relative_width, fraction),
            "word_heads": word_heads,
            "word_width": scale_width(self.word_width, fraction, word_heads),
            "position_heads": position_heads,
            "position_width": scale_width(self.position_width, fraction, position_heads),
        }


class StreamEmbeddings(nn.Module):
    """W dropout(LN(word [+ type])) and W' dropout(LN(position)), the initial states of the streams.

    Tables and norms that are `shared` belong to another encoder, as in `Embeddings`.
    """

    words: nn.Embedding
    types: nn.Embedding | None
    positions: PositionTable
    word_norm: LayerNorm
    position_norm: LayerNorm

    def __init__(
        self,
        parts: Mapping[str, nn.Module | None],
        widths: tuple[int, int],
        dropout: float,
        *,
        shared: bool = False,
    ) -> None:
        super().__init__()
        add_parts(self, parts if shared else (), **parts)
        self.dropout = Dropout(dropout)
        self.fit_words = build_projection(self.words.embedding_dim, widths[0])
        self.fit_positions = build_projection(self.positions.embedding_dim, widths[1])

    def share(self, widths: tuple[int, int]) -> StreamEmbeddings:
        """The same tables and norms; dropout and the linear maps are not shared."""
        names = ("words", "types", "positions", "word_norm", "position_norm")
        parts = {name: getattr(self, name) for name in names}
        return StreamEmbeddings(parts, widths, self.dropout.rate, shared=True)

    def forward(self, inputs: Inputs) -> StreamStates:
        x = self.words(inputs.tokens)
        if self.types is not None:
            x = x + token_type_vectors(self.types, inputs.segments)
        p = self.positions.vectors(x, inputs.positions)
        p = self.position_norm(p.expand(x.shape[0], -1, -1))
        x, p = self.dropout(self.word_norm(x)), self.dropout(p)
        return StreamStates(self.fit_words(x), self.fit_positions(p), scores=None)


class Taco(LayeredEncoder):
    """Separate streams of words and of positions; states are concat(words, positions) (eq. 1)."""

    takes_positions = True
    supports_selection = True

    def __init__(self, c: TacoConfig, sizes: Sizes) -> None:
        super().__init__()
        self.width, self.max_positions = c.word_width + c.position_width, c.max_positions
        self.widths = c.word_width, c.position_width
        self.separate_heads = c.head_features == "separate"
        parts = {
            "words": nn.Embedding(sizes["tokens"], c.word_width),
            "types": nn.Embedding(c.token_types, c.word_width) if c.token_types else None,
            "positions": PositionTable(c.max_positions, c.position_width, hidden=True),
            "word_norm": LayerNorm(c.word_width, eps=NORM_EPS),
            "position_norm": LayerNorm(c.position_width, eps=NORM_EPS),
        }
        self.embeddings = StreamEmbeddings(parts, self.widths, c.dropout)
        self.offsets = nn.Embedding(2 * c.max_positions - 1, c.relative_width)
        self.layers = LayerStack(
            TwoStreamLayer(
                StreamLayer(c.word_width, c.word_heads, c.head_width, c.dropout),
                StreamLayer(c.position_width, c.position_heads, c.head_width, c.dropout),
                build_maps(c, uses_previous_scores=c.residual_maps and layer > 0),
                passes_scores=c.residual_maps and layer < c.layers - 1,
            )
            for layer in range(c.layers)
        )
        init_bert_weights(self)

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embeddings.words

    @property
    def position_embedding(self) -> nn.Embedding:
        return self.embeddings.positions

    @property
    def head_columns(self) -> tuple[slice, slice]:
        if not self.separate_heads:
            return super().head_columns
        words, positions = self.widths
        return slice(0, words), slice(words, words + positions)

    def tie_embeddings_to(self, owner: EncoderModel) -> None:
        """Replace the tables and their norms, not offset vectors, by those of another encoder."""
        assert isinstance(owner, Taco)
        self.embeddings = owner.embeddings.share(self.widths)
        init_bert_weights(self.embeddings)

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        """Offsets are computed from position ids; indices would reveal hidden positions."""
        length = inputs.tokens.shape[1]
        streams, sequence = self.embed(inputs)
        added = streams.words.shape[1] - length
        if selected is not None and added:
            selected = selected + selected // length * added  # the same tokens in longer rows
        words, positions, _ = self.layers(streams, sequence, selected)
        states = torch.cat([words, positions], -1)
        return Encoded(states[:, :length] if selected is None and added else states)

    def layer_states(self, inputs: Inputs) -> list[Float[Tensor, "B S D"]]:
        streams, length = self.layers.list_states(*self.embed(inputs)), inputs.tokens.shape[1]
        return [torch.cat([it.words, it.positions], -1)[:, :length] for it in streams]

    def embed(self, inputs: Inputs) -> tuple[StreamStates, SequenceContext]:
        """The input of the first layer, with columns of padding where products need them."""
        limit = self.position_embedding.num_embeddings - 1
        inputs = add_columns(inputs, limit)
        tokens = inputs.tokens
        if inputs.max_position is not None:
            limit = inputs.max_position + 1
        offsets = Offsets(inputs.positions, tokens.shape[1], tokens.device, limit)
        offsets.prepare()
        table, k, limit = self.offsets.weight, len(self.offsets.weight) // 2, offsets.max_offset
        if limit <= k:
            vectors = table[k - limit : k + limit + 1]
        else:  # larger offsets share the outermost row of the table
            vectors = table[torch.arange(-limit, limit + 1, device=table.device).clamp(-k, k) + k]
        if vectors.is_cuda:  # one row more, 2 S of S positions: products with odd numbers are slow
            vectors = nn.functional.pad(vectors, (0, 0, 0, 1))
        return self.embeddings(inputs), SequenceContext(offsets, inputs.padding, vectors)


@register_arch(
    "taco_tiny",
    TacoConfig(
        layers=2,
        word_width=108,
        position_width=20,
        word_heads=2,
        position_heads=1,
        relative_width=128,
    ),
)
@register_arch(
    "taco_small",
    TacoConfig(
        word_width=216, position_width=40, word_heads=4, position_heads=2, relative_width=256
    ),
)
@register_arch("taco", TacoConfig())
def taco(c: TacoConfig, sizes: Sizes) -> Taco:
    """Attention maps of words, positions and both, mixed by a convolution (section 3)."""
    return Taco(c, sizes)


def build_maps(c: TacoConfig, *, uses_previous_scores: bool) -> TwoStreamMaps:
    """Content, content-to-position, position-to-content; position; previous scores (A.1)."""
    shape = c.word_heads, c.head_width, c.relative_width
    word_terms: list[ScoreTerm] = [
        Content(c.head_width),
        Relative([SharedQueryKernel(*shape)]),
        RelativeToKey([SharedKeyKernel(*shape)]),
    ]
    position_terms = [Content(c.head_width)]
    if not c.attention_convolution:
        return SummedMaps(word_terms, position_terms, c.attention_dropout)
    return MixedMaps(
        word_terms,
        position_terms,
        c.attention_dropout,
        word_heads=c.word_heads,
        position_heads=c.position_heads,
        uses_previous_scores=uses_previous_scores,
    )


LENGTH_MULTIPLE = {"cuda": 8}
"""Device -> a divisor of lengths. CUDA's products of half precision are several times slower if
rows, here those of maps, do not begin at multiples of 16 bytes."""


def add_columns(inputs: Inputs, max_length: int) -> Inputs:
    """The inputs with the columns of padding that they need, at position 0, if there is space."""
    length = inputs.tokens.shape[1]
    count = -length % LENGTH_MULTIPLE.get(inputs.tokens.device.type, 1)
    if not count or length + count > max_length:
        return inputs
    padding = inputs.padding
    if padding is None:
        padding = torch.zeros_like(inputs.tokens, dtype=torch.bool)
    max_position = inputs.max_position
    if max_position is not None:
        max_position = max(max_position, length + count - 1)
    return inputs._replace(
        tokens=F.pad(inputs.tokens, (0, count)),
        positions=None if inputs.positions is None else F.pad(inputs.positions, (0, count)),
        segments=None if inputs.segments is None else F.pad(inputs.segments, (0, count)),
        padding=F.pad(padding, (0, count), value=True),
        max_position=max_position,
    )
