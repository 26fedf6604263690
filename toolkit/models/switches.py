"""Single switches of the shared encoder: changes of today's models, each off by default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Options
from toolkit.nn.attention import Attention, ContentChange, LinearProjections
from toolkit.nn.attention.terms import QueryKeyNorm, SmearedKeys


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


def switch_attention(c: SwitchConfig, layers: Iterator[Attention]) -> Iterator[Attention]:
    """The attention of each layer, with the switches that are on."""
    for attention in layers:
        project = attention.project
        if c.qk_norm or c.smeared_keys:
            if not isinstance(project, LinearProjections):
                raise ToolkitError(
                    "arch.qk_norm and arch.smeared_keys change linear queries and keys, but those "
                    "of this attention are convolved. Leave arch.convolve out, or both of them."
                )
            width = project.qkv.out_features // (project.parts * project.heads)
            changes: list[ContentChange] = [QueryKeyNorm(width)] if c.qk_norm else []
            changes += [SmearedKeys(project.heads)] if c.smeared_keys else []
            project.changes = nn.ModuleList([*changes, *project.changes])
            project.changes_content, project.looks_back = True, c.smeared_keys
        if c.attention_gate:
            assert isinstance(attention.output, nn.Linear)
            attention.gate = nn.Linear(attention.output.out_features, attention.output.in_features)
        yield attention
