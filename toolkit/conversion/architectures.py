"""Settings of Transformers models as options of the toolkit's architectures, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from toolkit.common.json_files import JsonObject
from toolkit.common.registry import ARCHITECTURES
from toolkit.conversion.model_types import CONVBERT, DEBERTA, MODERNBERT, ModelType
from toolkit.conversion.tensors import Mismatch
from toolkit.models.bert import DebertaConfig, ModernBertConfig, bert, deberta, modernbert
from toolkit.models.convbert import ConvBertConfig, convbert
from toolkit.models.encoder import EncoderConfig
from toolkit.models.interface import ArchConfig
from toolkit.models.ltg_bert import GptBertConfig, LtgBertConfig, gpt_bert, ltg_bert
from toolkit.models.positions import PositionConfig
from toolkit.models.switches import SwitchConfig
from toolkit.nn.init import INIT_STD

MAX_SETTING = 1 << 24
"""Maximum value of a setting, so that tensor sizes do not overflow."""
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
GLOBAL, LOCAL = "full_attention", "sliding_attention"
BASES = {GLOBAL: 160_000.0, LOCAL: 10_000.0}
OLD_BASES = {GLOBAL: "global_rope_theta", LOCAL: "local_rope_theta"}
"""Settings of Transformers 4, which published models have."""
OLD_EVERY = "global_attn_every_n_layers"
BLOCKS = {
    **{"pre_norm": False, "norm": "layer", "activation": "gelu", "biases": True},
    "attention_window": None,
}
"""Options of the layers with the values that Transformers computes."""
MODERN_BLOCKS = {
    **{"pre_norm": True, "norm": "layer", "activation": "geglu", "biases": False},
    **{"positions": ["rope"], "token_types": 0},
}
LTG_BLOCKS = {
    **{"pre_norm": True, "norm": "plain", "activation": "geglu_tanh", "biases": True},
    **{"positions": ["deberta"], "token_types": 0, "attention_window": None},
    **{"position_products": "both", "separate_position_projections": False, "position_norm": True},
}
CONVBERT_OPTIONS = {
    "conv_type": "span",
    "share_value": False,
    "depthwise_bias": False,
    "renormalize_at_boundaries": False,
    "kernel_dropout": 0.0,
}


def config_mismatches(
    model_type: ModelType,
    config: JsonObject,
    tensors: Mapping[str, Tensor],
    layers: str = "num_hidden_layers",
) -> list[Mismatch]:
    """Unsupported settings, and settings that are not numbers in range.

    `layers` is a setting that must not exceed the number of layers in the tensors' names.
    """
    fixed = dict(model_type.fixed)
    if model_type.arch == "deberta":
        settings = {**DEBERTA.defaults, **config}
        width, heads = settings["hidden_size"], settings["num_attention_heads"]
        are_counts = isinstance(width, int) and isinstance(heads, int) and heads
        fixed |= {
            "embedding_size": (width,),
            "pooler_hidden_size": (width,),
            "attention_head_size": (width // heads if are_counts else 0,),
        }
    problems = [
        Mismatch("setting", key, str(config[key]), " or ".join(map(str, valid)))
        for key, valid in fixed.items()
        if key in config and config[key] not in valid
    ]
    for key, default in model_type.defaults.items():
        value, kind = config.get(key, default), type(default)
        least = min(default, 1) if kind is int else 0
        if not (type(value) in (int, kind) and least <= value < MAX_SETTING):
            valid = f"{kind.__name__} of at least {least}"
            problems.append(Mismatch("setting", key, repr(value), valid))
    number = len({part for name in tensors for part in name.split(".") if part.isdecimal()})
    if isinstance(config.get(layers), int) and config[layers] > number:
        valid = f"tensors of {number} layers"
        problems.append(Mismatch("setting", layers, str(config[layers])[:20], valid))
    if model_type.arch == "deberta":
        problems += offset_mismatches(config)
    return problems + (position_mismatches(config) if model_type is MODERNBERT else [])


def arch_options(model_type: ModelType, config: JsonObject) -> JsonObject:
    """Options of the toolkit's architecture."""
    settings = {**model_type.defaults, **config}
    options = {option: settings[name] for name, option in model_type.settings.items()}
    if model_type is CONVBERT:  # twice the attention heads, which determine the head width
        attention_heads = max(1, options["heads"] // max(1, options["head_ratio"]))
        options |= {"heads": 2 * attention_heads, "head_ratio": 2}
    if model_type.arch == "deberta":
        options |= deberta_positions(config)
        options["convolution_activation"] = config.get("conv_act", "tanh")
    if model_type is MODERNBERT:
        options |= {
            "global_every": find_global_every(config),
            "rope_base": rope_base(config, GLOBAL),
            "local_rope_base": rope_base(config, LOCAL),
        }
    return options


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
    if isinstance(arch, DebertaConfig):
        own = deberta_settings(arch)
        if "model_type" not in origin or deberta_positions(origin) != deberta_positions(own):
            settings |= own
        settings["conv_act"] = arch.convolution_activation
    defaults = {**fixed, "initializer_range": INIT_STD, "pad_token_id": pad}
    if isinstance(arch, ModernBertConfig):  # for Transformers 4 and 5
        bases = {GLOBAL: arch.rope_base, LOCAL: arch.local_rope_base or arch.rope_base}
        settings |= {
            "layer_types": layer_types(arch.layers, arch.global_every),
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
            },
            OLD_EVERY: arch.global_every,
            **{OLD_BASES[kind]: base for kind, base in bases.items()},
        }
        defaults |= dict.fromkeys(SPECIAL_IDS)  # its defaults are those of another vocabulary
    settings |= {"vocab_size": tokens, "model_type": model_type.model_type}
    settings |= {"auto_map": dict(model_type.code)} if model_type.code else {}
    return {**defaults, **origin, **settings}


def offset_products(config: JsonObject) -> list[str]:
    """The products of contents and offsets that DeBERTa's setting `pos_att_type` names."""
    named = config.get("pos_att_type") or []
    names = named.lower().split("|") if isinstance(named, str) else map(str, named)
    return sorted({name.strip() for name in names} & {"c2p", "p2c"})


def deberta_positions(config: JsonObject) -> JsonObject:
    """Options of the positions of a DeBERTa."""
    settings = {**DEBERTA.defaults, **config}
    length, distance = settings["max_position_embeddings"], settings["max_relative_positions"]
    learned = settings.get("position_biased_input", True)
    kinds = offset_products(config) if config.get("relative_attention") else []
    options: JsonObject = {"positions": ["learned"] * learned + ["deberta"] * bool(kinds)}
    if not options["positions"]:
        options["positions"] = ["none"]
    if learned:
        options["max_positions"] = length
    if kinds:
        norms = str(config.get("norm_rel_ebd", "none")).lower().split("|")
        buckets = settings["position_buckets"]
        options |= {
            "position_buckets": buckets if buckets > 0 else None,
            "max_distance": distance if distance > 0 else length,
            "position_products": kinds[0] if len(kinds) == 1 else "both",
            "separate_position_projections": not config.get("share_att_key", False),
            "position_norm": "layer_norm" in [norm.strip() for norm in norms],
        }
    return options


def deberta_settings(c: DebertaConfig) -> JsonObject:
    """Settings of Transformers for the positions of a DeBERTa."""
    learned, relative = "learned" in c.positions, "deberta" in c.positions
    length = c.max_positions if learned else c.max_distance
    products = "p2c|c2p" if c.position_products == "both" else c.position_products
    return {
        "max_position_embeddings": length,
        "max_relative_positions": -1 if c.max_distance == length else c.max_distance,
        "position_biased_input": learned,
        "relative_attention": relative,
        "pos_att_type": products if relative else None,
        "position_buckets": c.position_buckets or -1,
        "share_att_key": not c.separate_position_projections,
        "norm_rel_ebd": "layer_norm" if relative and c.position_norm else "none",
    }


def offset_mismatches(config: JsonObject) -> list[Mismatch]:
    """Unsupported settings of DeBERTa's offsets."""
    kinds, valid = config.get("pos_att_type"), ""
    if not isinstance(kinds, str | list | None):
        valid = "a list of c2p and p2c"
    elif offset_products(config) and not config.get("relative_attention"):
        valid = "none without relative_attention"
    return [Mismatch("setting", "pos_att_type", str(kinds), valid)] if valid else []


def layer_types(layers: int, every: int) -> list[str]:
    """Kind of attention of each layer if the first one and each one after `every` is global."""
    return [LOCAL if number % every else GLOBAL for number in range(layers)]


def find_global_every(config: JsonObject) -> int | None:
    """Distance of global layers; None if they are not at equal distances from the first."""
    types = config.get("layer_types")
    if types is None:
        every = config.get(OLD_EVERY, 3)
        return every if isinstance(every, int) and every > 0 else None
    if not isinstance(types, list):
        return None
    later = [n for n, kind in enumerate(types) if n and kind == GLOBAL]
    every = later[0] if later else max(1, len(types))
    layers = config.get("num_hidden_layers", MODERNBERT.defaults["num_hidden_layers"])
    return every if layers == len(types) and types == layer_types(len(types), every) else None


def rope_base(config: JsonObject, kind: str) -> float | None:
    """Base of the rotary frequencies of one kind of layers; None for another kind of rotation."""
    parameters: Any = config.get("rope_parameters") or {}
    if isinstance(parameters, dict):
        parameters = parameters.get(kind) or {}
    if not isinstance(parameters, dict):
        return None
    base = parameters.get("rope_theta", config.get(OLD_BASES[kind], BASES[kind]))
    plain = parameters.get("rope_type", "default") == "default" and not config.get("rope_scaling")
    return float(base) if plain and isinstance(base, int | float) and base > 0 else None


def position_mismatches(config: JsonObject) -> list[Mismatch]:
    """Unsupported orders of ModernBERT's layers, and unsupported rotations."""
    problems = []
    if find_global_every(config) is None:
        where, valid = "layer_types", f"one per layer, {GLOBAL} in the first and at equal distances"
        if config.get(where) is None:
            where, valid = OLD_EVERY, "a positive int"
        problems.append(Mismatch("setting", where, str(config[where]), valid))
    if None in (rope_base(config, GLOBAL), rope_base(config, LOCAL)):
        found = str(config.get("rope_parameters") or config.get("rope_scaling"))
        where, valid = "rope_parameters", "rope_type default and a positive rope_theta"
        problems.append(Mismatch("setting", where, found, valid))
    return problems


def native_differences(name: str, c: ArchConfig) -> list[str]:
    """What of an architecture the classes of Transformers cannot compute."""
    known = (bert, convbert, deberta, modernbert, ltg_bert, gpt_bert)
    if ARCHITECTURES[name].factory not in known:
        return [f"is {name}"]  # a plugin may subclass their configs
    assert isinstance(c, PositionConfig), "their configs are"
    required: dict[str, object] = {**BLOCKS, "positions": ["learned"]}
    reasons = {"has no token types (arch.token_types 0)": not c.token_types}
    if isinstance(c, ModernBertConfig):
        required, reasons = (
            MODERN_BLOCKS,
            {
                "has no sliding windows (arch.attention_window)": c.attention_window is None,
                "projects its embeddings (arch.embedding_width)": c.projects_embeddings,
            },
        )
    elif isinstance(c, LtgBertConfig):
        required, reasons = LTG_BLOCKS, {"projects its embeddings": c.projects_embeddings}
    elif isinstance(c, DebertaConfig):
        usual = {*c.positions} <= {"deberta", "learned", "none"}
        required["positions"] = c.positions if usual else ["deberta"]
        reason = "projects its embeddings after their norm (arch.embedding_width)"
        reasons = {reason: c.projects_embeddings}
    elif isinstance(c, ConvBertConfig):
        required |= CONVBERT_OPTIONS
        reason = f"has heads of width {c.head_width} that do not sum to half of the model's width"
        reasons[reason] = 2 * c.attention_heads * c.head_width != c.width
    reason = "has a row for hidden positions (arch.hidden_position_embedding)"
    reasons[reason] = c.hidden_position_embedding
    on = isinstance(c, GptBertConfig)
    switched = {"attention_gate": on, "layer_average": on}
    required = {**required, **{it.name: it.default for it in fields(SwitchConfig)}, **switched}
    others = {n: getattr(c, n) for n, value in required.items() if getattr(c, n) != value}
    return [
        *(
            f"has arch.{option} {', '.join(value) if isinstance(value, list) else value}"
            for option, value in others.items()
        ),
        *(reason for reason, applies in reasons.items() if applies),
    ]
