"""A stack of layers, which may be computed twice to keep less."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class LayerStack(nn.ModuleList):
    """Layers, each of which reads what the one below made.

    Where `recomputed` is set, only a layer's inputs are kept for the backward pass, which computes
    the rest is recomputed (Chen et al. 2016, section 4). Dropout draws from torch's default
    generators, which are put back for it: the gradients are the same.
    """

    checkpoint_activations = False

    def forward(self, x: Any, context: Any, selected: Tensor | None = None) -> Any:
        """What the last layer makes; with `chosen`, flat indices into B x S, of these places."""
        *others, last = self
        for layer in others:
            x = self.call_layer(layer, x, context)
        return self.call_layer(last, x, context, selected)

    def call_layer(self, layer: nn.Module, *inputs: Any) -> Any:
        if self.checkpoint_activations and torch.is_grad_enabled():
            return checkpoint(layer, *inputs, use_reentrant=False)
        return layer(*inputs)
