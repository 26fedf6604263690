"""Inputs, outputs and base class of encoders.

B sentences   S tokens of a sentence   D model width   N selected tokens
U distinct words of the batch   C characters of a word
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Options
from toolkit.models.packing import Packing
from toolkit.nn.attention.absolute import check_position_ids
from toolkit.nn.embeddings import check_token_ids
from toolkit.nn.layers import NORM_EPS, LayerStack, NormName, select_tokens


class Sizes(dict[str, int]):
    """Sizes of a model that depend on the data, as its tokenizer counts them; 0 if unknown.

    `tokens` is the size of the vocabulary, special tokens included. Formats add their own, such as
    `characters`, `tags`, `targets` (the target vocabulary) and `labels` (1 for a number).
    """

    def __missing__(self, name: str) -> int:
        return 0


class Inputs(NamedTuple):
    """One batch of sentences. `None` is known on the host and selects the fast path."""

    tokens: Int[Tensor, "B S"]
    positions: Int[Tensor, "B S"] | None = None
    """Position ids; None means 0 .. S-1 in every sentence."""
    segments: Int[Tensor, "B S"] | None = None
    """Token types; None means all 0."""
    padding: Bool[Tensor, "B S"] | None = None
    """True at padding; None means no padding."""
    char_ids: Int[Tensor, "U C"] | None = None
    """Characters of the batch's distinct words, for word-level encoders."""
    word_index: Int[Tensor, "B S"] | None = None
    """Row of `char_ids` for each token."""
    max_position: int | None = None
    """No position id is larger; None if unknown. Asking a GPU would wait for it."""
    packing: Packing | None = None
    """Where the tokens are without padding, for encoders that can do without it."""
    causal: bool = False
    """Whether tokens attend to themselves and to the left only; padding then comes last."""


def check_tensors(inputs: Inputs) -> None:
    """Raise unless the tokens and what describes them are tensors of one shape, B x S."""
    tokens: object = inputs.tokens
    if not isinstance(tokens, Tensor):
        raise ToolkitError(
            f"tokens must be a tensor, but are of type {type(tokens).__name__}. For texts use "
            f"learner.encode."
        )
    if tokens.dim() != 2 or not tokens.numel():
        raise ToolkitError(
            f"tokens must have the shape (sentences, tokens), none of them 0, but have "
            f"{tuple(tokens.shape)}. Give a single sentence as tokens[None]."
        )
    for name in ("tokens", "positions", "segments", "padding"):
        values = getattr(inputs, name)
        dtype = "" if values is None else str(values.dtype).removeprefix("torch.")
        if dtype and name != "padding" and dtype not in ("int64", "int32"):
            raise ToolkitError(
                f"{name} must be of dtype int64 or int32, but are {dtype}. Convert them with "
                f"{name}.long()."
            )
        if dtype and name == "padding" and dtype != "bool":
            raise ToolkitError(
                f"padding must be of dtype bool, True at padding, but is {dtype}. From an "
                f"attention mask: padding=attention_mask == 0."
            )
        if dtype and values.shape != tokens.shape:
            raise ToolkitError(
                f"{name} must have the shape of tokens, {tuple(tokens.shape)}, but have "
                f"{tuple(values.shape)}."
            )


class Encoded(NamedTuple):
    """The output of an encoder."""

    states: Float[Tensor, "B S D"]
    """Hidden states of the last layer."""


class ArchConfig(Options, section="arch"):
    """Base class of architecture configs, with the properties that tasks read."""

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens in a sentence; None if any length works."""
        return None

    @property
    def fixed_length(self) -> int | None:
        """The only number of tokens that a sentence may have, padding included; None if any."""
        return None

    def scaled_options(self, fraction: float) -> dict[str, int]:
        """Options of the same architecture with this fraction of its widths and heads."""
        raise ToolkitError(
            f"{type(self).__name__} does not define scaled_options, which smaller encoders of the "
            f"same architecture require. Derive it from toolkit.models.encoder.EncoderConfig."
        )


class EncoderModel(nn.Module, ABC):
    """Base class of encoders: the interface that tasks use.

    An architecture sets `width` and defines `token_embedding` and `forward`; the rest has defaults.
    """

    width: int
    """Width of the hidden states."""
    max_positions: int | None = None
    """Maximum number of tokens in a sentence; None if any length works."""
    fixed_length: int | None = None
    """The only number of tokens that a sentence may have, padding included; None if any."""
    takes_positions: bool = False
    """Whether the order of tokens is encoded by position ids only, which masked position modeling
    requires."""
    supports_selection: bool = False
    """Whether `forward` accepts `selected`; if not, `select_states` selects afterwards."""
    is_word_level: bool = False
    """Whether tokens are whole words, with their characters in the batch."""
    can_be_causal: bool = False
    """Whether it follows `Inputs.causal`."""
    uses_packing: bool = False
    """Whether batches on a GPU need `Inputs.packing`."""
    norm_epsilon: float = NORM_EPS
    """Epsilon of the norms; heads use the same."""
    norm_name: NormName = "layer"
    """Kind of the norms; heads that predict tokens use the same."""
    logit_cap: float | None = None
    """Soft cap of the logits of heads that predict tokens or positions."""
    has_biases: bool = True
    """Whether linear maps and norms have biases, also in heads that predict tokens."""

    def __call__(
        self,
        inputs: Inputs | Tensor,
        selected: Int[Tensor, " N"] | None = None,
        *,
        padding: Tensor | None = None,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Encoded:
        """The states of a batch: of `Inputs`, or of plain tensors, (B, S) each, which are checked.

        `padding` is True at padding: the opposite of Transformers' attention_mask.
        """
        if not isinstance(inputs, Inputs):
            inputs = Inputs(inputs, positions, segments, padding)
            check_tensors(inputs)
            if not torch.compiler.is_compiling():
                self.check_ids(inputs)
        elif not (padding is None and segments is None and positions is None):
            raise ToolkitError(
                "Inputs have fields for padding, segments and positions, which cannot be given "
                "again. Use inputs._replace(padding=...)."
            )
        return super().__call__(inputs, selected)

    @property
    @abstractmethod
    def token_embedding(self) -> nn.Embedding:
        """The token embedding; heads that predict tokens are tied to it by use."""

    @property
    def position_embedding(self) -> nn.Embedding | None:
        """The position embedding, its last row for hidden positions; None without such a row."""
        return None

    @property
    def head_columns(self) -> tuple[slice, slice]:
        """Columns of the states from which heads predict tokens and positions: all of them."""
        return slice(0, self.width), slice(0, self.width)

    def check_ids(self, inputs: Inputs) -> None:
        """Ids must be rows of the tables; looked at on the host, since a GPU's error is fatal."""
        check_token_ids(inputs.tokens, self.token_embedding.num_embeddings)
        if inputs.positions is not None and self.max_positions is not None:
            hidden = self.position_embedding is not None
            check_position_ids(inputs.positions, self.max_positions, hidden=hidden)

    @abstractmethod
    def forward(self, inputs: Inputs, selected: Int[Tensor, " N"] | None = None) -> Encoded:
        """States of all tokens; with `selected`, flat indices into B x S, of these: (1, N, D)."""

    def select_states(self, inputs: Inputs, selected: Int[Tensor, " N"]) -> Float[Tensor, "N D"]:
        """States of the selected tokens, flat indices into B x S."""
        if self.supports_selection:
            return self(inputs, selected).states[0]
        return select_tokens(self(inputs).states, selected)[0]  # (B, S, D) -> (N, D)

    def tie_embeddings_to(self, owner: EncoderModel) -> None:
        """Replace the embedding tables by those of another encoder, which owns them."""
        raise ToolkitError(
            f"{type(self).__name__} cannot share embeddings, which task rtd requires. Choose an "
            f"architecture built from toolkit.models.encoder.Encoder, such as bert_small, or "
            f"define its method tie_embeddings_to."
        )

    def load_word_vectors(self, vectors: NDArray[np.float32] | None) -> None:
        """Initialize from the data folder's word vectors, [V, E] in the order of the vocabulary, if
        it has any; encoders without such an option ignore them.
        """


class LayeredEncoder(EncoderModel):
    """An encoder that also returns the states of its lower layers."""

    layers: LayerStack

    @abstractmethod
    def layer_states(self, inputs: Inputs) -> list[Float[Tensor, "B S D"]]:
        """States of the embeddings and of every layer, arbitrary at padding; the last are
        `forward`'s.
        """


RANGE = re.compile(r"(?<![^.])(\d+)-(\d+)(?![^.])")
WHOLE = "encoder"
"""Names all of an encoder that has no module of this name."""


def find_modules(encoder: EncoderModel, patterns: Iterable[str]) -> list[nn.Module]:
    """The modules to freeze, as patterns name them; unknown names are an error."""
    modules: dict[str, nn.Module] = {WHOLE: encoder}
    modules |= {name: m for name, m in encoder.named_modules() if name and has_parameters(m)}
    found = []
    for pattern in patterns:
        for name in expand_ranges(pattern):
            if name not in modules:
                part = next((f", parts of them such as {it}" for it in modules if "." in it), "")
                raise ToolkitError(
                    f"cannot freeze {pattern!r}: the encoder has no module {name!r}. Choose from "
                    f"{', '.join(list_names(encoder))}{part}, or {WHOLE} for all of it."
                )
            found.append(modules[name])
    return found


def expand_ranges(pattern: str) -> list[str]:
    """layers.0-1.attention -> layers.0.attention, layers.1.attention."""
    if not (bounds := RANGE.search(pattern)):
        return [pattern]
    first, last = int(bounds[1]), int(bounds[2])
    if first > last:
        raise ToolkitError(
            f"the range in {pattern!r} must begin with the lower number, but begins with {first}. "
            f"Write {RANGE.sub(f'{last}-{first}', pattern, count=1)}."
        )
    before, after = pattern[: bounds.start()], pattern[bounds.end() :]
    return [it for n in range(first, last + 1) for it in expand_ranges(f"{before}{n}{after}")]


def has_parameters(module: nn.Module) -> bool:
    """Whether a module or one of its parts has parameters."""
    return any(True for _ in module.parameters())


def list_names(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """The modules with parameters, each stack of layers as a range."""
    for name, child in module.named_children():
        if isinstance(child, LayerStack):
            yield f"{prefix}{name}.0" + (f"-{len(child) - 1}" if len(child) > 1 else "")
        elif any(isinstance(inner, LayerStack) for inner in child.modules()):
            yield from list_names(child, f"{prefix}{name}.")
        elif has_parameters(child):
            yield f"{prefix}{name}"
