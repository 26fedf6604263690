"""Parameter groups: weight decay, layer-wise learning rates, hidden matrices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from torch.nn import Parameter

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, AtMost, NonNegativeFloat, Options

NamedParameter = tuple[str, Parameter]
ParameterGroup = dict[str, Any]
"""A parameter group of torch, with lr and weight_decay, and the flags matrix and no_decay."""
LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
"""Matches the number of the layer that a parameter belongs to, from 0."""


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Options, section="optimizer"):
    """Options of every optimizer."""

    lr: NonNegativeFloat = 3e-4
    """Peak learning rate."""
    weight_decay: NonNegativeFloat = 0.01
    """Weight decay per update and unit of learning rate; biases, norms and the weights of
    arch.weighted_residuals are exempt."""
    layerwise_lr_decay: Annotated[float, Above(0), AtMost(1)] = 1.0
    """Layer-wise learning-rate decay: factor from each layer to the one below. Heads learn at the
    full rate, the top layer at this fraction of it, the embeddings slowest."""


def is_exempt_from_decay(name: str) -> bool:
    """Whether a parameter has no weight decay: a bias, a parameter of a module whose name contains
    "norm" (Chang et al. 2021, code, exempt "bias" and "LayerNorm.weight"), or the weights of
    residual connections (Charpentier and Samuel 2023, code). A list named biases holds biases only.
    """
    *owners, last = name.lower().split(".")
    named = "bias" in last or last == "residual_weights"
    return named or any("norm" in it or it == "biases" for it in owners[-1:])


def is_hidden_matrix(name: str, p: Parameter) -> bool:
    """Whether a parameter is the weight of a linear map inside a layer; not of an embedding or
    head.
    """
    return p.dim() == 2 and name.endswith(".weight") and LAYER.search(name) is not None


def layerwise_lr_factors(names: Sequence[str], decay: float) -> list[float]:
    """decay^(L - l) in layer l of L, counted from 0, decay^(L + 1) below, 1 elsewhere: the rates of
    Clark et al. (2020, appendix B), with one factor less everywhere but in the heads.

    Encoder and decoder have a depth L each. "Below" are the embeddings and all other parameters
    before the layers, L that of the deepest stack for those of both. The weights that mix layers
    learn at the rate of the top layer, a final norm and output embeddings at that of the heads.
    """
    if decay == 1:
        return [1.0] * len(names)
    matches = [LAYER.search(name) if name.startswith("encoder.") else None for name in names]
    depths: dict[str, int] = {}  # of each stack, by the names before its layers
    for match in filter(None, matches):
        stack = match.string[: match.start()]
        depths[stack] = max(depths.get(stack, 0), int(match[1]) + 1)
    if not depths:
        raise ToolkitError(
            "optimizer.layerwise_lr_decay requires an encoder with parameters named layers.0..., "
            "layers.1... Omit it, or name the architecture's list of layers `layers`."
        )
    first = next(i for i, match in enumerate(matches) if match)

    def factor(i: int, name: str) -> float:
        if match := matches[i]:
            return decay ** (depths[match.string[: match.start()]] - int(match[1]))
        if name.endswith((".layer_weights", ".residual_weights")):
            return decay
        is_head = not name.startswith("encoder.") or ".separate_output_embedding." in name
        if is_head or not (i < first or ".embeddings." in name):
            return 1.0
        own = [depth for stack, depth in depths.items() if name.startswith(f"{stack}.")]
        return decay ** (1 + max(own or depths.values()))

    return [factor(i, name) for i, name in enumerate(names)]


def build_parameter_groups(
    parameters: Iterable[NamedParameter],
    c: OptimizerConfig,
    matrix: Callable[[str, Parameter], bool] = lambda name, p: False,
) -> list[ParameterGroup]:
    """Groups of the trained parameters by weight decay, learning rate and, if given, `matrix`."""
    named = list(parameters)
    factors = layerwise_lr_factors([name for name, _ in named], c.layerwise_lr_decay)
    groups: dict[tuple[bool, bool, float], ParameterGroup] = {}
    for (name, p), factor in zip(named, factors, strict=True):
        if not p.requires_grad:
            continue
        no_decay, is_matrix = is_exempt_from_decay(name), matrix(name, p)
        group = {
            "params": [],
            "lr": c.lr * factor,
            "weight_decay": 0.0 if no_decay else c.weight_decay,
            "matrix": is_matrix,
            "no_decay": no_decay,
        }
        groups.setdefault((is_matrix, no_decay, factor), group)["params"].append((name, p))
    return list(groups.values())
