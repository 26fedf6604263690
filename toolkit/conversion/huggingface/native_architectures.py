"""Architectures that classes of Transformers compute alike."""

from __future__ import annotations

from collections.abc import Mapping

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.bert import bert
from toolkit.models.convbert import ConvBertConfig, convbert
from toolkit.models.deberta import DebertaConfig, deberta
from toolkit.models.interface import ArchConfig
from toolkit.models.modernbert import ModernBertConfig, modernbert
from toolkit.models.positions import PositionConfig

BLOCKS = {
    **{"pre_norm": False, "norm": "layer", "activation": "gelu", "biases": True},
    "attention_window": None,
}
"""Options of the layers with the values that Transformers computes."""
MODERN_BLOCKS = {
    **{"pre_norm": True, "norm": "layer", "activation": "geglu", "biases": False},
    **{"positions": ["rope"], "token_types": 0},
}
CONVBERT_OPTIONS = {
    "conv_type": "span",
    "share_value": False,
    "depthwise_bias": False,
    "renormalize_at_boundaries": False,
    "kernel_dropout": 0.0,
}


def list_other_options(c: ArchConfig, required: Mapping[str, object]) -> list[str]:
    """The options with other values."""
    others = {n: getattr(c, n) for n, v in required.items() if getattr(c, n) != v}
    return [
        f"has arch.{name} {', '.join(value) if isinstance(value, list) else value}"
        for name, value in others.items()
    ]


def check_architecture(name: str, c: ArchConfig) -> PositionConfig:
    """The config; raises a ToolkitError unless Transformers can compute the same."""
    if differences := list_differences(name, c):
        raise ToolkitError(
            f"The architecture must be bert, convbert, deberta or modernbert as in Transformers, "
            f"but this one {' and '.join(differences)}. Nothing was written. Pass --classes "
            f"toolkit."
        )
    assert isinstance(c, PositionConfig), "their configs are"
    return c


def list_differences(name: str, c: ArchConfig) -> list[str]:
    """What of an architecture the classes of Transformers cannot compute."""
    if ARCHITECTURES[name].factory not in (bert, convbert, deberta, modernbert):
        return [f"is {name}"]  # a plugin may subclass their configs
    assert isinstance(c, PositionConfig), "their configs are"
    if c.hidden_position_embedding:
        return ["has a row for hidden positions (arch.hidden_position_embedding)"]
    if isinstance(c, ModernBertConfig):
        return modernbert_differences(c)
    positions = "deberta" if isinstance(c, DebertaConfig) else "learned"
    found = list_other_options(c, {**BLOCKS, "positions": [positions]})
    if isinstance(c, DebertaConfig):
        return found + deberta_differences(c)
    if not c.token_types:
        found.append("has no token types (arch.token_types 0)")
    return found + (convbert_differences(c) if isinstance(c, ConvBertConfig) else [])


def modernbert_differences(c: ModernBertConfig) -> list[str]:
    """Options of ModernBERT that the class of Transformers cannot compute."""
    found = list_other_options(c, MODERN_BLOCKS)
    if c.attention_window is None:
        found.append("has no sliding windows (arch.attention_window)")
    if c.projects_embeddings:
        found.append("projects its embeddings (arch.embedding_width)")
    return found


def deberta_differences(c: DebertaConfig) -> list[str]:
    """Options of DeBERTa that the class of Transformers cannot compute."""
    if c.projects_embeddings:
        return ["projects its embeddings after their norm (arch.embedding_width)"]
    return []


def convbert_differences(c: ConvBertConfig) -> list[str]:
    """Options of ConvBERT that the class of Transformers cannot compute."""
    found = list_other_options(c, CONVBERT_OPTIONS)
    if 2 * c.attention_heads * c.head_width != c.width:
        found.append(
            f"has heads of width {c.head_width} that do not sum to half of the model's width"
        )
    return found
