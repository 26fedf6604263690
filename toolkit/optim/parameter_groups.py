"""Which parameters an optimizer treats differently from the rest: decay, rate, matrix or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from torch.nn import Parameter

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Above, AtMost, NonNegativeFloat, Options

NamedParameter = tuple[str, Parameter]
LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
"""The number of the layer that a parameter of one of our encoders belongs to, from 0."""


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Options, section="optimizer"):
    """Options of every optimizer."""

    lr: NonNegativeFloat = 3e-4
    """Peak learning rate."""
    weight_decay: NonNegativeFloat = 0.01
    """Weight decay per update and unit of learning rate; biases and norms are exempt."""
    layerwise_lr_decay: Annotated[float, Above(0), AtMost(1)] = 1.0
    """Factor on the learning rate from each layer to the one below: heads learn at the full rate,
    the top layer at this fraction of it, the embeddings slowest."""


def is_exempt_from_decay(name: str) -> bool:
    """Whether a parameter keeps its size: biases and norms do, every other one decays.

    Chang et al. (2021, their code) spare the names with "bias" and "LayerNorm.weight": the tables
    of a convolution decay, whatever their number of axes. Here a norm is an owner with "norm" in
    its name; a list called biases has nothing else.
    """
    *owners, last = name.lower().split(".")
    return "bias" in last or any("norm" in it or it == "biases" for it in owners[-1:])


def is_hidden_matrix(name: str, p: Parameter) -> bool:
    """Whether a parameter is the matrix of a linear map inside a layer.

    Embeddings, heads, tables of taps, kernels of convolutions and vectors are none.
    """
    return p.dim() == 2 and name.endswith(".weight") and LAYER.search(name) is not None


def layerwise_lr_factors(names: Sequence[str], decay: float) -> list[float]:
    """decay^(L - l) in layer l of L, counted from 0, decay^(L + 1) below, 1 elsewhere.

    The layer-wise rates of Clark et al. (2020, appendix B), with one factor less everywhere but in
    the heads: theirs are decay^(L + 1 - l) and decay^(L + 2). Below are embeddings and what else
    of the encoder comes before its layers; what follows, as a last norm, and the scores of a
    model that writes learn like the heads.
    """
    if decay == 1:
        return [1.0] * len(names)
    inside = [LAYER.search(name) if name.startswith("encoder.") else None for name in names]
    places = [place for place, found in enumerate(inside) if found]
    if not places:
        raise ToolkitError(
            "optimizer.layerwise_lr_decay must find layers, but no parameter of the encoder is "
            "called layers.0 and so on. Leave it out, or name the architecture's list of layers so."
        )
    layers = 1 + max(int(found[1]) for found in inside if found)

    def factor(place: int) -> float:
        if found := inside[place]:
            return decay ** (layers - int(found[1]))
        below = place < places[0] or ".embeddings." in names[place]
        own = (
            names[place].startswith("encoder.")
            and ".separate_output_embedding." not in names[place]
        )
        return decay ** (layers + 1) if below and own else 1.0

    return [factor(place) for place in range(len(names))]


def build_parameter_groups(
    parameters: Iterable[NamedParameter],
    c: OptimizerConfig,
    matrix: Callable[[str, Parameter], bool] = lambda name, p: False,
) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer: by decay, by rate and, where asked for, by `matrix`."""
    named = [(name, p) for name, p in parameters if p.requires_grad]
    factors = layerwise_lr_factors([name for name, _ in named], c.layerwise_lr_decay)
    found: dict[tuple[bool, bool, float], dict[str, Any]] = {}
    for (name, p), factor in zip(named, factors, strict=True):
        kind = matrix(name, p), is_exempt_from_decay(name), factor
        group = {
            "params": [],
            "lr": c.lr * factor,
            "weight_decay": 0.0 if kind[1] else c.weight_decay,
            "matrix": kind[0],
            "spared": kind[1],
        }
        found.setdefault(kind, group)["params"].append((name, p))
    return list(found.values())
