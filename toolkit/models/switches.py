"""Single switches of the shared encoder: changes of today's models, each off by default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import NonNegativeInt, Options, PositiveFloat
from toolkit.nn.attention import Attention, ContentChange, LinearProjections
from toolkit.nn.attention.terms import FIRST, KeptValues, MixedInValues, QueryKeyNorm, SmearedKeys


@dataclass(frozen=True, kw_only=True)
class SwitchConfig(Options, section="arch"):
    """Options that change one equation of an encoder each."""

    qk_norm: bool = False
    """Normalize queries and keys by their root mean square in each head, with a learned gain, which
    bounds the scores (Henry et al. 2020)."""
    smeared_keys: bool = False
    """Mix each key with the one to its left, by a learned weight of each head (Olsson et al.
    2022)."""
    attention_gate: bool = False
    """Multiply the output of the heads by a sigmoid gate of the layer's input (Qiu et al. 2025)."""
    layer_average: bool = False
    """Let each layer read a learned weighted sum of the embeddings and of all layers before it
    (DenseFormer, Pagliardini et al. 2024)."""
    weighted_residuals: bool = False
    """Let each layer read a learned weighted mean of the embeddings and of what all layers before
    it add, in place of their sum (ELC-BERT, Charpentier and Samuel 2023). Requires arch.pre_norm.
    """
    value_residual: bool = False
    """Add the values of the first layer to those of the others, with learned weights (Zhou et al.
    2024)."""
    value_embeddings: NonNegativeInt = 0
    """Tables of token embeddings that are added to the values, of the first N and the last N
    layers, with learned weights (modded-nanogpt, Jordan et al. 2024)."""
    logit_cap: PositiveFloat | None = None
    """Soft cap c of the logits z of tokens and positions, c tanh(z / c): 30 in Gemma 2 (Gemma Team
    2024, section 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        c: Any = self  # the other options are those of architectures
        if self.weighted_residuals and (self.layer_average or not c.pre_norm or c.layers < 2):
            raise ToolkitError(
                "arch.weighted_residuals requires arch.pre_norm and two layers or more, and cannot "
                "be combined with arch.layer_average: both choose what a layer reads."
            )
        if 2 * self.value_embeddings > c.layers:
            raise ToolkitError(
                f"arch.value_embeddings must be at most half of arch.layers, but is "
                f"{self.value_embeddings} of {c.layers}."
            )


def list_changes(c: Any, layer: int, project: LinearProjections) -> list[ContentChange]:
    """The changes of queries, keys and values in a layer."""
    changes: list[ContentChange] = []
    if c.qk_norm:
        changes.append(QueryKeyNorm(project.qkv.out_features // (project.parts * project.heads)))
    if c.smeared_keys:
        changes.append(SmearedKeys(project.heads))
    if c.value_residual:
        changes.append(MixedInValues(FIRST) if layer else KeptValues())
    table = layer if layer < c.value_embeddings else layer - (c.layers - c.value_embeddings)
    if 0 <= table < c.value_embeddings:
        changes.append(MixedInValues(str(table)))
    return changes


def switch_attention(c: SwitchConfig, layers: Iterator[Attention]) -> Iterator[Attention]:
    """The attention of each layer, with the switches that are on."""
    for number, attention in enumerate(layers):
        project = attention.project
        if c.qk_norm or c.smeared_keys or c.value_residual or c.value_embeddings:
            if not isinstance(project, LinearProjections):
                raise ToolkitError(
                    "arch.qk_norm, arch.smeared_keys, arch.value_residual and "
                    "arch.value_embeddings change linear queries, keys and values, but those of "
                    "this attention are convolved. Leave arch.convolve out, or all of them."
                )
            project.changes = nn.ModuleList([*list_changes(c, number, project), *project.changes])
            project.changes_content, project.looks_back = True, c.smeared_keys
        if c.attention_gate:
            assert isinstance(attention.output, nn.Linear)
            attention.gate = nn.Linear(attention.output.out_features, attention.output.in_features)
        yield attention
