"""Features that a task's heads read: the states of the last layer, or a mix of all layers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toolkit.common.errors import ToolkitError
from toolkit.models.interface import EncoderModel, Inputs, LayeredEncoder
from toolkit.nn.layer_stack import select_tokens


class Features(nn.Module, ABC):
    """Maps an encoder and its inputs to one vector per token."""

    @abstractmethod
    def forward(self, encoder: EncoderModel, inputs: Inputs) -> Float[Tensor, "B S D"]:
        """Vectors of all tokens."""

    @abstractmethod
    def select(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " N"]
    ) -> Float[Tensor, "N D"]:
        """Vectors of the selected tokens, flat indices into B x S."""


class LastLayer(Features):
    """The states of the last layer."""

    def forward(self, encoder: EncoderModel, inputs: Inputs) -> Float[Tensor, "B S D"]:
        states: Tensor = encoder(inputs).states
        return states

    def select(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " N"]
    ) -> Float[Tensor, "N D"]:
        return encoder.select_states(inputs, selected)


class LayerMixing(Features):
    """g sum_j softmax(w)_j h_j, h_0 the embeddings, h_j layer j (Peters et al. 2018, eq. 1).

    w starts at 0 and g at 1: the mean of all layers. The sum is in fp32 at least.
    """

    def __init__(self, encoder: EncoderModel) -> None:
        super().__init__()
        if not isinstance(encoder, LayeredEncoder):
            raise ToolkitError(
                f"task.layer_mixing requires the states of all layers, which "
                f"{type(encoder).__name__} does not return. Leave it out, or derive the "
                f"architecture from toolkit.models.interface.LayeredEncoder."
            )
        self.weights = nn.Parameter(torch.zeros(1 + len(encoder.layers)))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, encoder: EncoderModel, inputs: Inputs) -> Float[Tensor, "B S D"]:
        return self.mix(list_states(encoder, inputs))

    def select(
        self, encoder: EncoderModel, inputs: Inputs, selected: Int[Tensor, " N"]
    ) -> Float[Tensor, "N D"]:
        return self.mix([select_tokens(h, selected)[0] for h in list_states(encoder, inputs)])

    def mix(self, states: list[Float[Tensor, "*tokens D"]]) -> Float[Tensor, "*tokens D"]:
        shares = (self.scale * self.weights.softmax(0)).split(1)
        mixed = shares[0] * states[0]
        for share, state in zip(shares[1:], states[1:], strict=True):
            mixed = mixed + share * state
        return mixed


def list_states(encoder: EncoderModel, inputs: Inputs) -> list[Float[Tensor, "B S D"]]:
    """States of the embeddings and of every layer."""
    assert isinstance(encoder, LayeredEncoder), "the mixing was made for it"
    return encoder.layer_states(inputs)


def build_features(encoder: EncoderModel, *, layer_mixing: bool) -> Features:
    """The features of a head: the last layer's states, or a mix of all layers."""
    return LayerMixing(encoder) if layer_mixing else LastLayer()
