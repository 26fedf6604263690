"""Settings of Transformers models as options of the toolkit's architectures, and back."""

from __future__ import annotations

from toolkit.common.json_files import JsonObject
from toolkit.conversion.huggingface.model_types import CONVBERT, FIXED, ModelType
from toolkit.conversion.mismatches import Mismatch
from toolkit.models.convbert import ConvBertConfig
from toolkit.models.encoder import EncoderConfig
from toolkit.nn.init import INIT_STD

MAX_SETTING = 1 << 24
"""Maximum value of a setting, so that tensor sizes do not overflow."""


def config_mismatches(model_type: ModelType, config: JsonObject) -> list[Mismatch]:
    """Unsupported settings, and settings that are not numbers in range."""
    problems = [
        Mismatch("setting", f"config.json: {key}", str(config[key]), " or ".join(map(str, valid)))
        for key, valid in FIXED.items()
        if key in config and config[key] not in valid
    ]
    for key, default in model_type.defaults.items():
        value, kind = config.get(key, default), type(default)
        if not (type(value) in (int, kind) and 0 <= value < MAX_SETTING):
            problems.append(Mismatch("setting", f"config.json: {key}", repr(value), kind.__name__))
    return problems


def arch_options(model_type: ModelType, config: JsonObject) -> JsonObject:
    """Options of the toolkit's architecture."""
    settings = {**model_type.defaults, **config}
    options = {option: settings[name] for name, option in model_type.settings.items()}
    if model_type is CONVBERT:  # twice the attention heads, which determine the head width
        attention_heads = max(1, options["heads"] // max(1, options["head_ratio"]))
        options |= {"heads": 2 * attention_heads, "head_ratio": 2, "convolve_padding": True}
    return options


def to_hf_config(
    model_type: ModelType, arch: EncoderConfig, tokens: int, pad: int, origin: JsonObject
) -> JsonObject:
    """A Transformers config for an architecture; unmapped settings come from `origin`."""
    settings = {name: getattr(arch, option) for name, option in model_type.settings.items()}
    settings["intermediate_size"] = arch.feed_forward_width or 4 * arch.width
    if "embedding_size" in settings:
        settings["embedding_size"] = arch.embedding_width or arch.width
    if isinstance(arch, ConvBertConfig):
        settings |= {"num_attention_heads": 2 * arch.attention_heads, "head_ratio": 2}
    fixed = {key: values[0] for key, values in FIXED.items() if key != "position_embedding_type"}
    defaults = {**fixed, "initializer_range": INIT_STD, "pad_token_id": pad}
    settings |= {"vocab_size": tokens, "model_type": model_type.model_type}
    return {**defaults, **origin, **settings}
