"""Architectures that classes of Transformers compute alike."""

from __future__ import annotations

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.bert import BertConfig, bert
from toolkit.models.convbert import ConvBertConfig, convbert
from toolkit.models.encoder import EncoderConfig
from toolkit.models.interface import ArchConfig


def check_architecture(name: str, c: ArchConfig) -> BertConfig | ConvBertConfig:
    """The config; raises a ToolkitError unless Transformers can compute the same."""
    if differences := list_differences(name, c):
        raise ToolkitError(
            f"The architecture must be bert or convbert as in Transformers, but this one "
            f"{' and '.join(differences)}. Nothing was written. Pass --classes toolkit."
        )
    assert isinstance(c, BertConfig | ConvBertConfig)
    return c


def list_differences(name: str, c: ArchConfig) -> list[str]:
    """What of an architecture the classes of Transformers cannot compute."""
    if ARCHITECTURES[name].factory not in (bert, convbert):  # a plugin may subclass their configs
        return [f"is {name}"]
    if isinstance(c, EncoderConfig) and c.hidden_position_embedding:
        return ["has a row for hidden positions (arch.hidden_position_embedding)"]
    if not isinstance(c, ConvBertConfig):
        return []
    required = {
        "conv_type": "span",
        "share_value": False,
        "depthwise_bias": False,
        "renormalize_at_boundaries": False,
        "kernel_dropout": 0.0,
    }
    found = [f"has {n} {getattr(c, n)}" for n, v in required.items() if getattr(c, n) != v]
    if 2 * c.attention_heads * c.head_width != c.width:
        found.append(
            f"has heads of width {c.head_width} that do not sum to half of the model's width"
        )
    return found
