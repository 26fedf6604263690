"""A stack of layers with optional activation checkpointing."""

from __future__ import annotations

from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

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
    recomputes the rest (Chen et al. 2016, section 4). Dropout draws from torch's default
    generators, which are restored for it: the gradients are the same.
    """

    checkpoint_activations = False

    def forward(
        self, x: States, context: object, selected: Int[Tensor, " N"] | None = None
    ) -> States:
        """The output of the last layer; with `selected`, flat indices into B x S, of these tokens.

        `context` is passed to every layer.
        """
        *others, last = self
        for layer in others:
            x = self.call_layer(layer, x, context)
        return self.call_layer(last, x, context, selected)

    def list_states(self, x: States, context: object) -> list[States]:
        """The input, and the output of every layer."""
        states = [x]
        for layer in self:
            states.append(self.call_layer(layer, states[-1], context))
        return states

    def call_layer(self, layer: nn.Module, x: States, *context: object) -> States:
        recompute = self.checkpoint_activations and torch.is_grad_enabled()
        out: States = (
            checkpoint(layer, x, *context, use_reentrant=False) if recompute else layer(x, *context)
        )
        return out
