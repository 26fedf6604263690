"""Attention maps of a model, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from toolkit.models.interface import Inputs
from toolkit.nn.attention import Attention, AttentionInputs, TwoStreamMaps


@torch.no_grad()
def attention_maps(
    encoder: nn.Module,
    inputs: Inputs,
    transform: Callable[[Float[Tensor, "B H S T"]], Tensor] = lambda weights: weights,
) -> list[Tensor]:
    """What multiplies the values in each layer, softmax(scores) or what the architecture has in its
    place, without dropout; row i holds what place i looks at.

    [B, H, S, T], or what `of` makes of each, so that not all need to be kept. Any architecture's
    whose layers are `Attention`s, or have `TwoStreamMaps` of several streams. They are computed
    in addition to the encoder's own pass, which takes a faster path that shows no maps.
    """
    maps: list[Tensor] = []

    def make_hook(attention: Attention) -> Any:
        def hook(project: nn.Module, given: Any, projected: AttentionInputs) -> None:
            maps.append(transform(attention.map(projected).float()))

        return hook

    def joint(module: TwoStreamMaps, given: Any, scores: Tensor) -> None:
        maps.append(transform(module.weights(scores, given[0].sequence.padding).float()))

    modules = list(encoder.modules())
    hooks = [
        a.project.register_forward_hook(make_hook(a)) for a in modules if isinstance(a, Attention)
    ]
    hooks += [m.register_forward_hook(joint) for m in modules if isinstance(m, TwoStreamMaps)]
    training = encoder.training
    try:
        encoder.eval()
        encoder(inputs)
    finally:
        encoder.train(training)
        for hook in hooks:
            hook.remove()
    return maps
