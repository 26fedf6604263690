"""The attention maps of a model for given sentences: who attends to whom, layer by layer."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.models.inputs import Inputs
from toolkit.nn.attention import Attention, Projected


@torch.no_grad()
def attention_maps(encoder: nn.Module, inputs: Inputs) -> list[Float[Tensor, "B H S T"]]:
    """softmax(scores) of each layer, without dropout; row i holds what place i looks at.

    Any architecture's whose layers are `Attention`s. They are computed beside the encoder's own
    pass, which takes a faster path that shows no maps.
    """
    maps: list[Tensor] = []

    def shown(attention: Attention) -> Any:
        def hook(project: nn.Module, given: Any, projected: Projected) -> None:
            maps.append(attention.map(projected).float())

        return hook

    attentions = [module for module in encoder.modules() if isinstance(module, Attention)]
    hooks = [a.project.register_forward_hook(shown(a)) for a in attentions]
    training = encoder.training
    try:
        encoder.eval()
        encoder(inputs)
    finally:
        encoder.train(training)
        for hook in hooks:
            hook.remove()
    return maps
