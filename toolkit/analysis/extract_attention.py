"""Attention maps of a model, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from toolkit.models.interface import Inputs
from toolkit.nn.attention import Attention, AttentionInputs, TwoStreamMaps
from toolkit.nn.ops.mixed_attention import MixedAttention


@torch.no_grad()
def attention_maps(
    encoder: nn.Module,
    inputs: Inputs,
    transform: Callable[[Float[Tensor, "B H S T"]], Tensor] = lambda weights: weights,
) -> list[Tensor]:
    """The weights that multiply the values in each layer, without dropout: [B, H, S, T].

    Row i has the weights of query i. `transform` is applied to each layer's map, so that not all
    need to be in memory. Works for architectures whose layers are `Attention`s or have
    `TwoStreamMaps`. The maps are computed in addition to the encoder's forward pass, whose faster
    path never forms them.
    """
    maps: list[Tensor] = []

    def record_map(attention: Attention) -> Callable[[nn.Module, Any, AttentionInputs], None]:
        return lambda _, args, inputs: maps.append(transform(attention.map(inputs).float()))

    def record_two_streams(_: TwoStreamMaps, args: Any, maps_of_streams: MixedAttention) -> None:
        weights = torch.cat([maps_of_streams.words, maps_of_streams.positions], 1)
        maps.append(transform(weights.float()))

    hooks = []
    for module in encoder.modules():
        if isinstance(module, Attention):
            hooks.append(module.project.register_forward_hook(record_map(module)))
        elif isinstance(module, TwoStreamMaps):
            hooks.append(module.register_forward_hook(record_two_streams))
    with evaluating(encoder, hooks):
        encoder(inputs)
    return maps


@contextmanager
def evaluating(module: nn.Module, hooks: Sequence[RemovableHandle]) -> Iterator[None]:
    """Evaluation mode; on exit the mode is restored and the hooks are removed."""
    training = module.training
    try:
        module.eval()
        yield
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
