"""Settings of Transformers models as options of the toolkit's architectures, and back."""

from __future__ import annotations

from toolkit.common.json_files import JsonObject
from toolkit.conversion.huggingface.deberta import dependent_settings
from toolkit.conversion.huggingface.model_type import ModelType
from toolkit.conversion.huggingface.model_types import CONVBERT
from toolkit.conversion.huggingface.modernbert import (
    MODERNBERT,
    position_mismatches,
    position_options,
    position_settings,
)
from toolkit.conversion.mismatches import Mismatch
from toolkit.models.convbert import ConvBertConfig
from toolkit.models.encoder import EncoderConfig
from toolkit.models.modernbert import ModernBertConfig
from toolkit.nn.init import INIT_STD

MAX_SETTING = 1 << 24
"""Maximum value of a setting, so that tensor sizes do not overflow."""
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")


def config_mismatches(model_type: ModelType, config: JsonObject) -> list[Mismatch]:
    """Unsupported settings, and settings that are not numbers in range."""
    fixed, found = dict(model_type.fixed), {**model_type.omitted, **config}
    if model_type.arch == "deberta":
        fixed |= dependent_settings(config)
    problems = [
        Mismatch("setting", f"config.json: {key}", str(found[key]), " or ".join(map(str, valid)))
        for key, valid in fixed.items()
        if key in found and found[key] not in valid
    ]
    for key, default in model_type.defaults.items():
        value, kind = config.get(key, default), type(default)
        if not (type(value) in (int, kind) and 0 <= value < MAX_SETTING):
            problems.append(Mismatch("setting", f"config.json: {key}", repr(value), kind.__name__))
    return problems + (position_mismatches(config) if model_type is MODERNBERT else [])


def arch_options(model_type: ModelType, config: JsonObject) -> JsonObject:
    """Options of the toolkit's architecture."""
    settings = {**model_type.defaults, **config}
    options = {option: settings[name] for name, option in model_type.settings.items()}
    if model_type is CONVBERT:  # twice the attention heads, which determine the head width
        attention_heads = max(1, options["heads"] // max(1, options["head_ratio"]))
        options |= {"heads": 2 * attention_heads, "head_ratio": 2}
    return options | (position_options(config) if model_type is MODERNBERT else {})


def to_hf_config(
    model_type: ModelType, arch: EncoderConfig, tokens: int, pad: int, origin: JsonObject
) -> JsonObject:
    """A Transformers config for an architecture; unmapped settings come from `origin`."""
    settings = {name: getattr(arch, option) for name, option in model_type.settings.items()}
    fixed = {key: values[0] for key, values in model_type.fixed.items()}
    fixed.pop("position_embedding_type", None)
    settings["intermediate_size"] = arch.inner_width
    if "embedding_size" in settings:
        settings["embedding_size"] = arch.embedding_width or arch.width
    if isinstance(arch, ConvBertConfig):
        settings |= {"num_attention_heads": 2 * arch.attention_heads, "head_ratio": 2}
    defaults = {**fixed, "initializer_range": INIT_STD, "pad_token_id": pad}
    if isinstance(arch, ModernBertConfig):
        settings |= position_settings(arch)
        defaults |= dict.fromkeys(SPECIAL_IDS)  # its defaults are those of another vocabulary
    settings |= {"vocab_size": tokens, "model_type": model_type.model_type}
    return {**defaults, **origin, **settings}
