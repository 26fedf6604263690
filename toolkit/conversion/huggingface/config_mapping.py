"""Settings of Transformers models as options of our architectures, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolkit.conversion.huggingface.model_types import CONVBERT, FIXED, ModelType
from toolkit.conversion.mismatches import Mismatch
from toolkit.nn.init import INIT_STD

MAX_SETTING = 1 << 24
"""Maximum value of a setting, so that tensor sizes do not overflow."""


def config_mismatches(family: ModelType, config: Mapping[str, Any]) -> list[Mismatch]:
    """Unsupported settings, and settings that are not numbers in range."""
    problems = [
        Mismatch("setting", f"config.json: {key}", str(config[key]), " or ".join(map(str, known)))
        for key, known in FIXED.items()
        if key in config and config[key] not in known
    ]
    for key, default in family.defaults.items():
        value, kind = config.get(key, default), type(default)
        good = type(value) in (int, kind) and 0 <= value < MAX_SETTING
        if not good:
            problems.append(Mismatch("setting", f"config.json: {key}", repr(value), kind.__name__))
    return problems


def arch_options(family: ModelType, config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of our architecture."""
    theirs = {**family.defaults, **config}
    found = {ours: theirs[name] for name, ours in family.settings.items()}
    if family is CONVBERT:
        found |= {**head_options(theirs), "convolve_padding": True}
    return found


def head_options(theirs: Mapping[str, Any]) -> dict[str, int]:
    """ConvBERT's heads as twice the attention heads, which determine the head width."""
    attending = max(1, theirs["num_attention_heads"] // max(1, theirs["head_ratio"]))
    return {"heads": 2 * attending, "head_ratio": 2}


def to_hf_config(
    family: ModelType, arch: Any, tokens: int, pad: int, origin: Mapping[str, Any]
) -> dict[str, Any]:
    """A Transformers config for our architecture; unmapped settings come from `origin`."""
    found = {name: getattr(arch, ours) for name, ours in family.settings.items()}
    found["intermediate_size"] = arch.feed_forward_width or 4 * arch.width
    if "embedding_size" in found:
        found["embedding_size"] = arch.embedding_width or arch.width
    if family is CONVBERT:
        found |= {"num_attention_heads": 2 * arch.attention_heads, "head_ratio": 2}
    fixed = {key: known[0] for key, known in FIXED.items() if key != "position_embedding_type"}
    silent = {**fixed, "initializer_range": INIT_STD, "pad_token_id": pad}
    return {**silent, **origin, **found, "vocab_size": tokens, "model_type": family.model_type}
