"""A tagger of self-attention layers only, with three extensions (Dufter et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import register_arch
from toolkit.config.declared import ADVANCED, Layers, NonNegativeInt, Rate, Size
from toolkit.models.interface import ArchConfig, Encoded, Inputs, LayeredEncoder, Sizes
from toolkit.nn.attention import (
    AbsolutePositionBias,
    Attention,
    Content,
    Offsets,
    PairConvolution,
    QueryConvolution,
    Relative,
    ReversedKernel,
    ScoreTerm,
    SequenceContext,
    SmoothedMap,
    SoftmaxMap,
    TemperedProjections,
)
from toolkit.nn.init import glorot_uniform_
from toolkit.nn.layers import LayerStack, select_tokens
from toolkit.nn.ops.convolution import relu_convolution, to_compute_dtype
from toolkit.nn.ops.dropout import Dropout


@dataclass(frozen=True, kw_only=True)
class ConvSanConfig(ArchConfig):
    """Options of conv_san."""

    layers: Layers = 4
    """Number of layers, each self-attention only."""
    heads: Size = 4
    """Number of attention heads; divides the total width of words, positions, characters."""
    word_width: Size = 300
    """Width of the word embeddings."""
    word_vectors: Literal["learned", "tuned", "frozen"] = "learned"
    """Word embeddings. learned: random at first; tuned: the data folder's word vectors at first;
    frozen: these vectors, not updated."""
    positions: Literal["none", "add", "concat"] = "add"
    """Learned position embeddings: added to the word embedding (add), concatenated to it (concat),
    or none."""
    position_width: Size = 64
    """Width of the position embeddings if positions is concat."""
    character_width: NonNegativeInt = 64
    """Width of the character embeddings and of their convolutions; 0 disables characters."""
    character_layers: Layers = 3
    """Number of convolutions over a word's characters."""
    character_kernel: Size = 5
    """Kernel size of these convolutions; odd."""
    position_table: bool = False
    """Add a learned bias per pair of positions to the first layer's scores (+P)."""
    relative_table: bool = False
    """Add a learned bias per offset to the first layer's scores (+R)."""
    relative_spectral: bool = field(default=False, metadata=ADVANCED)
    """Interpret these biases as a spectrum, as in the authors' code, which cannot distinguish left
    from right."""
    temperature: bool = False
    """Scale queries, keys and values by a learned number per head (+Temp)."""
    convolution: Literal["none", "1d", "2d"] = "2d"
    """Convolution of the attention weights after the softmax. 1d: along the queries, with keys as
    channels; 2d: one 3 x 3 filter per head."""
    fixed_length: Size = 60
    """Number of tokens of every input: shorter sentences are padded, longer ones split."""
    dropout: Rate = 0.1
    """Dropout rate of the hidden units before each layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.character_kernel % 2 == 0:
            raise ToolkitError(
                f"arch.character_kernel must be odd, but is {self.character_kernel}. Choose "
                f"{self.character_kernel - 1} or {self.character_kernel + 1}."
            )
        if self.width % self.heads:
            raise ToolkitError(
                f"arch.heads must divide the width of a word, {self.width} = word_width + "
                f"character_width (+ position_width), but is {self.heads}. Change one of them."
            )

    @property
    def max_length(self) -> int:
        return self.fixed_length

    @property
    def width(self) -> int:
        """Width of the embeddings and of the layers' states."""
        positions = self.position_width if self.positions == "concat" else 0
        return self.word_width + positions + self.character_width


class WordCharacterEmbeddings(nn.Module):
    """concat(word [+ position], [position,] characters)."""

    def __init__(self, c: ConvSanConfig, sizes: Sizes) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes["tokens"], c.word_width)
        self.words.weight.requires_grad_(c.word_vectors != "frozen")
        self.character_cnn = CharacterCnn(c, sizes["characters"]) if c.character_width else None
        length, adds, concatenates = c.fixed_length, c.positions == "add", c.positions == "concat"
        added = nn.Parameter(torch.empty(length, c.word_width)) if adds else None
        concatenated = nn.Parameter(torch.empty(length, c.position_width)) if concatenates else None
        self.added_positions, self.concatenated_positions = added, concatenated
        for table in (self.words.weight, added, concatenated):
            if table is not None:
                nn.init.uniform_(table, -INIT_BOUND, INIT_BOUND)

    def forward(self, inputs: Inputs) -> Float[Tensor, "B S D"]:
        words = self.words(inputs.tokens)
        parts = [words if self.added_positions is None else words + self.added_positions]
        if self.concatenated_positions is not None:
            parts.append(self.concatenated_positions.expand(len(words), -1, -1))
        if self.character_cnn is not None:
            if inputs.char_ids is None or inputs.word_index is None:
                raise ToolkitError(
                    "An encoder with arch.character_width reads the characters of words: it "
                    "requires Inputs with char_ids and word_index, as batches of tagged text have."
                )
            parts.append(F.embedding(inputs.word_index, self.character_cnn(inputs.char_ids)))
        return torch.cat(parts, -1)


class ConvSanLayer(nn.Module):
    """x <- x' + concat over heads(attention(x')), x' = dropout(x) (authors' code)."""

    def __init__(self, attention: Attention, dropout: float) -> None:
        super().__init__()
        self.attention, self.dropout = attention, Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        selected: Int[Tensor, " N"] | None = None,
    ) -> Float[Tensor, "C N D"]:
        x = self.dropout(x)
        return select_tokens(x + self.attention(x, sequence), selected)


class ConvSan(LayeredEncoder):
    """concat(embeddings, layers(embeddings)) of whole words, at a fixed length. Padding is attended
    to and convolved like words, as in the authors' code.
    """

    supports_selection = True
    is_word_level = True
    fixed_length: int

    def __init__(self, c: ConvSanConfig, sizes: Sizes) -> None:
        super().__init__()
        if c.character_width and not sizes["characters"]:
            raise ToolkitError(
                "arch.character_width must be 0 for data without characters, but is "
                f"{c.character_width}. Preprocess tagged text, or pass --arch.character-width 0."
            )
        self.width, self.fixed_length = 2 * c.width, c.fixed_length
        self.max_positions = c.fixed_length
        self.word_vectors = c.word_vectors
        self.embeddings = WordCharacterEmbeddings(c, sizes)
        self.layers = LayerStack(
            ConvSanLayer(build_attention(c, first=layer == 0), c.dropout)
            for layer in range(c.layers)
        )

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.embeddings.words

    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        embedded, sequence = self.embed(inputs)
        x = self.layers(embedded, sequence, selected)
        return Encoded(torch.cat([select_tokens(embedded, selected), x], -1))

    def layer_states(self, inputs: Inputs) -> list[Float[Tensor, "B S D"]]:
        """concat(embeddings, x), x the embeddings themselves and then the output of each layer."""
        embedded, sequence = self.embed(inputs)
        return [torch.cat([embedded, x], -1) for x in self.layers.list_states(embedded, sequence)]

    def embed(self, inputs: Inputs) -> tuple[Float[Tensor, "B S D"], SequenceContext]:
        """The input of the first layer."""
        tokens = inputs.tokens
        if tokens.shape[1] != self.fixed_length:
            raise ToolkitError(
                f"sentences must have arch.fixed_length = {self.fixed_length} tokens, but have "
                f"{tokens.shape[1]}. Pad or split them."
            )
        sequence = SequenceContext(Offsets(None, self.fixed_length, tokens.device))
        return self.embeddings(inputs), sequence

    @torch.no_grad()
    def load_word_vectors(self, vectors: NDArray[np.float32] | None) -> None:
        if self.word_vectors == "learned":
            return
        if vectors is None:
            raise ToolkitError(
                f"arch.word_vectors must be learned for a data folder without vectors, but is "
                f"{self.word_vectors}. Run toolkit-preprocess with --word-vectors FILE.vec."
            )
        table = self.token_embedding.weight
        if vectors.shape != table.shape:
            raise ToolkitError(
                f"arch.word_width must be that of the folder's word vectors, {vectors.shape[1]}, "
                f"but is {table.shape[1]}. Pass --arch.word-width {vectors.shape[1]}."
            )
        table.copy_(torch.from_numpy(np.array(vectors)))


def build_attention(c: ConvSanConfig, *, first: bool) -> Attention:
    """Only the first layer has position terms."""
    terms: list[ScoreTerm] = []
    if first and c.position_table:
        terms.append(AbsolutePositionBias(c.heads, c.fixed_length))
    if first and c.relative_table:
        kernel = ReversedKernel(c.heads, c.fixed_length, spectral=c.relative_spectral)
        terms.append(Relative([kernel]))
    project = TemperedProjections(c.width, c.heads, temperature=c.temperature)
    content = Content(c.width // c.heads)
    if c.convolution == "none":
        return Attention(c.width, project, SoftmaxMap(content, terms), output=False)
    is_1d = c.convolution == "1d"
    smoothing = QueryConvolution(c.heads, c.fixed_length) if is_1d else PairConvolution(c.heads)
    return Attention(c.width, project, SmoothedMap(content, terms, smoothing), output=False)


@register_arch("conv_san_ud", ConvSanConfig(word_width=128))
@register_arch("conv_san", ConvSanConfig())
def conv_san(c: ConvSanConfig, sizes: Sizes) -> ConvSan:
    """Convolved self-attention over words with their characters."""
    return ConvSan(c, sizes)


INIT_BOUND = 0.05
"""Bound of the uniform distribution that embeddings are initialized from, as in Keras."""


class CharacterCnn(nn.Module):
    """max over the characters of conv(... conv(characters)), each conv with a ReLU (Yu, Falenska &
    Vu 2017, as in the code of Dufter et al. 2020); zeros beyond the ends, padding is like others.
    """

    def __init__(self, c: ConvSanConfig, characters: int) -> None:
        super().__init__()
        width, kernel, layers = c.character_width, c.character_kernel, range(c.character_layers)
        self.characters = nn.Embedding(characters, width)
        self.filters = nn.ParameterList(torch.empty(kernel, width, width) for _ in layers)
        self.biases = nn.ParameterList(torch.zeros(width) for _ in layers)
        nn.init.uniform_(self.characters.weight, -INIT_BOUND, INIT_BOUND)
        for filters in self.filters:
            glorot_uniform_(filters.detach(), kernel * width, kernel * width)

    def forward(self, char_ids: Int[Tensor, "U C"]) -> Float[Tensor, "U E"]:
        x = to_compute_dtype(self.characters(char_ids))
        for filters, bias in zip(self.filters, self.biases, strict=True):
            x = relu_convolution(x[None], filters[None], bias[None])[0]
        return x.amax(1)
