"""Layers and their parts: norms, residuals, feed-forward networks; stacks of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from toolkit.nn.attention import (
    Attention,
    CrossAttention,
    SequenceContext,
    StreamProjections,
    TwoStreamMaps,
)
from toolkit.nn.decoding_cache import LayerCache, SourceCache
from toolkit.nn.init import INIT_STD
from toolkit.nn.ops import bias_sums
from toolkit.nn.ops.batched_products import average_by_head
from toolkit.nn.ops.bias_sums import detach_bias, sums_bias
from toolkit.nn.ops.convolution import mask_padding
from toolkit.nn.ops.dropout import Dropout
from toolkit.nn.ops.kernels import drawing_seeds
from toolkit.nn.ops.layer_norm import MAX_WIDTH, LayerNorm, RMSNorm, add_norm

NormName = Literal["layer", "rms", "plain"]
NORM_EPS = 1e-12
"""Of the BERT family."""


def build_norm(name: NormName, width: int, eps: float = NORM_EPS) -> LayerNorm | RMSNorm:
    """LayerNorm (Ba et al. 2016), without parameters if plain; or RMSNorm (Zhang & Sennrich
    2019).
    """
    if name == "rms":
        return RMSNorm(width, eps)
    return LayerNorm(width, eps=eps, elementwise_affine=name == "layer")


class Residual(nn.Module):
    """norm(x + dropout(f(x))) (Vaswani et al. 2017, section 5.4), or with `pre_norm`
    x + dropout(f(norm(x))) (Wang et al. 2019).
    """

    def __init__(
        self,
        width: int,
        dropout: float,
        eps: float = NORM_EPS,
        *,
        pre_norm: bool = False,
        norm: NormName = "layer",
    ) -> None:
        super().__init__()
        self.norm: nn.Module = build_norm(norm, width, eps)
        self.dropout, self.pre_norm = Dropout(dropout), pre_norm

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        y: Float[Tensor, "B S D"],
        y_bias: Float[Tensor, " D"] | None = None,
    ) -> Float[Tensor, "B S D"]:
        """The residual of x, given y = f(x) or f(norm(x)); `y_bias` is one that y contains, if
        `add_norm` computes its gradient.
        """
        norm = self.norm
        if self.pre_norm:
            return x + self.dropout(y)
        if isinstance(norm, LayerNorm) and norm.elementwise_affine:
            rate = self.dropout.effective_rate
            return add_norm(x, y, norm.weight, norm.bias, norm.eps, rate, y_bias)
        return norm(x.to(y.dtype) + self.dropout(y))

    def add(
        self, x: Float[Tensor, "B S D"], sublayer: nn.Module, *context: object
    ) -> Float[Tensor, "B S D"]:
        """The residual of x with this sublayer f."""
        norm = self.norm
        given = norm(x) if self.pre_norm else x
        by_kernel = isinstance(norm, LayerNorm) and norm.elementwise_affine and not self.pre_norm
        if by_kernel and isinstance(sublayer, Attention | FeedForward) and x.shape[-1] <= MAX_WIDTH:
            last = sublayer.back if isinstance(sublayer, FeedForward) else sublayer.output
            if sums_bias(last, x):
                hidden: Any = sublayer.hidden
                return self(x, detach_bias(last, hidden(given, *context)), last.bias)
        return self(x, sublayer(given, *context))


Activation = Literal["gelu", "relu", "geglu", "geglu_tanh", "swiglu"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "silu": F.silu,
    "relu": F.relu,
    "gelu": F.gelu,
    "geglu": F.gelu,
    "geglu_tanh": partial(F.gelu, approximate="tanh"),
    "swiglu": F.silu,
}
GATED = ("geglu", "geglu_tanh", "swiglu")
"""Activations that are multiplied by a second linear map."""


class FeedForward(nn.Module):
    """W_2 gelu(W_1 x + b_1) + b_2, gelu in its exact form (Devlin et al. 2019), or with ReLU
    (Vaswani et al. 2017, eq. 2); gated, W_2 (gelu(W_1 x + b_1) * (V x + c)) + b_2 for geglu, with
    gelu by tanh for geglu_tanh and silu for swiglu (Shazeer 2020, eq. 6). W_1 and V are one
    product.

    With groups, both matrices are block diagonal (Jiang et al. 2020, eq. 7).
    """

    def __init__(
        self, width: int, inner: int, groups: int = 1, activation: Activation = "gelu"
    ) -> None:
        super().__init__()
        self.activation, self.gated = ACTIVATIONS[activation], activation in GATED
        assert groups == 1 or not self.gated, "the halves of the product are no groups"
        self.wide = build_linear(width, 2 * inner if self.gated else inner, groups)
        self.back = build_linear(inner, width, groups)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return self.back(self.hidden(x))

    def hidden(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S I"]:
        """What W_2 is applied to."""
        wide: Any = self.wide
        if self.activation is F.gelu and not self.gated and sums_bias(wide, x):
            return bias_sums.gelu(detach_bias(wide, x), wide.bias)
        y = wide(x)
        if not self.gated:
            return self.activation(y)
        y, gate = y.chunk(2, -1)
        return self.activation(y) * gate


def build_linear(width: int, out: int, groups: int) -> nn.Module:
    """A linear map, or one of several groups of channels."""
    return nn.Linear(width, out) if groups == 1 else GroupedLinear(width, out, groups)


class GroupedLinear(nn.Module):
    """concat_g(x_g W_g) + b: contiguous groups of channels, each with a separate matrix."""

    def __init__(self, width: int, out: int, groups: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, width // groups, out // groups))
        self.bias = nn.Parameter(torch.zeros(out))
        nn.init.normal_(self.weight, std=INIT_STD)

    def extra_repr(self) -> str:
        return "groups={}, in={}, out={} each".format(*self.weight.shape)

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S O"]:
        groups = len(self.weight)
        rows = x.flatten(0, 1).unflatten(-1, (groups, -1)).transpose(0, 1)  # (B, S, D) -> (G, N, I)
        out = torch.baddbmm(self.bias.view(groups, 1, -1), rows, self.weight)
        return out.transpose(0, 1).flatten(1).unflatten(0, x.shape[:2])  # (G, N, J) -> (B, S, O)


class InputConvolution(nn.Module):
    """norm(y + act(dropout(conv(x)))) of the input x and the output y of a layer (DeBERTa's second
    version, code). Padding in x is 0.
    """

    def __init__(
        self, width: int, size: int, groups: int, activation: str, dropout: float, eps: float
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, width, size, padding=size // 2, groups=groups)
        self.activation, self.dropout = ACTIVATIONS[activation], Dropout(dropout)
        self.norm = LayerNorm(width, eps)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        y: Float[Tensor, "C N D"],
        padding: Bool[Tensor, "B S"] | None,
        selected: Int[Tensor, " N"] | None,
    ) -> Float[Tensor, "C N D"]:
        convolved = self.convolution(mask_padding(x, padding).mT).mT  # (B, S, D) -> (B, D, S)
        z: Tensor = y + self.activation(self.dropout(select_tokens(convolved, selected)))
        return self.norm(z)


States = TypeVar("States")
"""What a layer maps to the same type: states, or those of several streams."""


def select_tokens(
    x: Float[Tensor, "B S D"], selected: Int[Tensor, " N"] | None
) -> Float[Tensor, "C M D"]:
    """States of the selected tokens, flat indices into B x S, as (1, N, D); None selects all."""
    if selected is None:
        return x
    return x.flatten(0, 1).index_select(0, selected).unsqueeze(0)  # (B, S, D) -> (1, N, D)


class LayerStack(nn.ModuleList):
    """Layers applied one after another.

    With `checkpoint_activations`, only the inputs of a layer are saved for the backward pass, which
    recomputes the rest, with the same dropout (Chen et al. 2016, section 4).
    """

    checkpoint_activations = False

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__(layers)
        self.layer_weights: nn.Parameter | None = None
        self.residual_weights: nn.Parameter | None = None
        """Of sums in place of the residual connections; without weight decay."""

    @property
    def weights(self) -> nn.Parameter | None:
        """Of the sums of states that layers read, if they do."""
        return self.layer_weights if self.residual_weights is None else self.residual_weights

    def average_inputs(self) -> None:
        """Let what follows layer i read sum_j a_ij x_j of the input x_0 and all outputs up to x_i,
        with learned a, at first 1 for j = i and 0 elsewhere (Pagliardini et al. 2024, section 3).
        """
        self.layer_weights = nn.Parameter(torch.eye(len(self) + 1)[1:])

    def weight_residuals(self) -> None:
        """Let layer n read x_n = sum_i softmax(a_n)_i h_i of the input h_0 and of h_i = f_i(x_i) -
        x_i, what layers with `pre_norm` add to their input, with learned a, at first 0 (Charpentier
        and Samuel 2023, section 3; code, zero initialization). The last h is the result.
        """
        self.residual_weights = nn.Parameter(torch.zeros(len(self) - 1, len(self)))

    def forward(
        self, x: States, context: object, selected: Int[Tensor, " N"] | None = None
    ) -> States:
        """The output of the last layer; with `selected`, flat indices into B x S, of these."""
        states: list[Any] = [x]
        *others, last = self
        for layer in others:
            x = self.average(states, x, self.call_layer(layer, x, context))
        y = self.call_layer(last, x, context, selected)
        if self.weights is None or selected is None:
            return self.average(states, x, y)
        *states, read = (select_tokens(state, selected) for state in (*states, x))
        return self.average(states, read, y)

    def list_states(self, x: States, context: object) -> list[States]:
        """The input, and the output of every layer."""
        outputs, states = [x], [x]
        for layer in self:
            y = self.call_layer(layer, states[-1], context)
            states.append(self.average(outputs, states[-1], y))
        return states

    def average(self, states: list[Any], x: Any, y: Any) -> Any:
        """The weighted sum of the states so far and of the output y of a layer that reads x, which
        is added to them; y without weights.
        """
        table, replaces = self.weights, self.residual_weights is not None
        if table is None:
            return y
        states.append(y - x if replaces else y)
        if len(states) - 1 > len(table):
            return states[-1]
        weights = table[len(states) - 2, : len(states)].to(x.dtype)
        if replaces:
            weights = weights.softmax(0)
        return sum(weight * state for weight, state in zip(weights, states, strict=True))

    def call_layer(self, layer: nn.Module, x: States, *context: object) -> States:
        if not (self.checkpoint_activations and torch.is_grad_enabled()):
            return layer(x, *context)
        with drawing_seeds(together=False):
            return checkpoint(layer, x, *context, use_reentrant=False)


ENCODER_NAMES = "attention", "after_{}"
"""Names of attention, and of the residual connection of a sublayer {}, as checkpoints have them."""
GENERATIVE_NAMES = "self_attention", "{}_residual"


class TransformerLayer(nn.Module):
    """x <- LN(x + dropout(f(x))) for f = attention, cross-attention if any, feed-forward network,
    or x <- x + dropout(f(LN(x))) with residuals of `pre_norm`.
    """

    attention: Attention
    after_attention: Residual
    cross_attention: CrossAttention | None

    def __init__(
        self,
        attention: Attention,
        feed_forward: FeedForward,
        cross: CrossAttention | None = None,
        *,
        residual: Callable[[], Residual],
        names: tuple[str, str] = ENCODER_NAMES,
    ) -> None:
        super().__init__()
        self.attention_name, self.residual_name = names
        self.convolution: InputConvolution | None = None
        parts = {names[0]: attention, "cross_attention": cross, "feed_forward": feed_forward}
        for name, part in parts.items():
            self.add_module(name, part)
            if part is not None:
                self.add_module(self.residual_name.format(name), residual())

    def init_cache(self) -> LayerCache:
        """Empty caches for decoding."""
        attention: Attention = getattr(self, self.attention_name)
        cross = None if self.cross_attention is None else SourceCache()
        return attention.map.init_cache(), cross

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        sequence: SequenceContext,
        selected: Int[Tensor, " N"] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "C N D"]:
        """With `selected`, flat indices into B x S, the feed-forward network skips other tokens."""
        own_cache, source_cache = (None, None) if cache is None else cache
        y = self.add(self.attention_name, x, sequence, own_cache)
        if self.cross_attention is not None:
            y = self.add("cross_attention", y, sequence.source, source_cache)
        y = self.add("feed_forward", select_tokens(y, selected))
        return y if self.convolution is None else self.convolution(x, y, sequence.padding, selected)

    def add(self, name: str, x: Float[Tensor, "B S D"], *context: object) -> Float[Tensor, "B S D"]:
        """x with the output of a sublayer added to it."""
        residual: Residual = getattr(self, self.residual_name.format(name))
        return residual.add(x, getattr(self, name), *context)


class StreamStates(NamedTuple):
    """States of the words and of the positions, and attention scores for the next layer."""

    words: Float[Tensor, "B S D"]
    positions: Float[Tensor, "B S P"]
    scores: Float[Tensor, "B H S T"] | None = None


class StreamLayer(nn.Module):
    """The sublayers of one stream: x <- LN(x + W_O (map V)); x <- LN(x + feed_forward(x))."""

    def __init__(self, width: int, heads: int, head_width: int, dropout: float) -> None:
        super().__init__()
        self.project = StreamProjections(width, heads, head_width)
        self.output, self.after_attention = nn.Linear(width, width), Residual(width, dropout)
        self.feed_forward = FeedForward(width, 4 * width)
        self.after_feed_forward = Residual(width, dropout)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        v: Float[Tensor, "B H T V"],
        weights: Float[Tensor, "B H S T"],
        selected: Int[Tensor, " N"] | None,
    ) -> Float[Tensor, "C N D"]:
        if weights.is_cuda:
            context = average_by_head(weights, v)
        else:
            context = (weights @ v).transpose(1, 2).flatten(2)  # (B, H, S, V) -> (B, S, HV)
        x = select_tokens(self.after_attention(x, self.output(context)), selected)
        return self.after_feed_forward.add(x, self.feed_forward)


class TwoStreamLayer(nn.Module):
    """The maps are computed from both streams; each stream applies its heads to its values."""

    def __init__(
        self, words: StreamLayer, positions: StreamLayer, maps: TwoStreamMaps, passes_scores: bool
    ) -> None:
        super().__init__()
        self.words, self.positions, self.maps = words, positions, maps
        self.passes_scores = passes_scores
        """Whether the next layer receives the scores."""

    def forward(
        self, x: StreamStates, sequence: SequenceContext, selected: Int[Tensor, " N"] | None = None
    ) -> StreamStates:
        """With `selected`, flat indices into B x S, only states of these tokens are returned."""
        words = self.words.project(x.words, sequence)
        positions = self.positions.project(x.positions, sequence)
        scores, of_words, of_positions = self.maps(words, positions, x.scores)
        return StreamStates(
            self.words(x.words, words.v, of_words, selected),
            self.positions(x.positions, positions.v, of_positions, selected),
            scores if self.passes_scores else None,
        )
