"""Names and settings of ModernBERT in Transformers."""

from __future__ import annotations

from toolkit.common.json_files import JsonObject
from toolkit.conversion.huggingface.model_type import ENCODER, ModelType
from toolkit.conversion.mismatches import Mismatch
from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings
from toolkit.models.encoder import EncoderConfig
from toolkit.models.interface import ArchConfig
from toolkit.models.modernbert import ModernBertConfig

GLOBAL, LOCAL = "full_attention", "sliding_attention"
BASES = {GLOBAL: 160_000.0, LOCAL: 10_000.0}
OLD_BASES = {GLOBAL: "global_rope_theta", LOCAL: "local_rope_theta"}
"""Settings of Transformers 4, which published models have."""
OLD_EVERY = "global_attn_every_n_layers"


def embeddings(arch: EncoderConfig) -> list[TensorMapping]:
    """Tensors outside the layers."""
    return [
        TensorMapping(f"{ENCODER}.embeddings.words.weight", ("embeddings.tok_embeddings.weight",)),
        *affine_mappings(f"{ENCODER}.embeddings.norm", "embeddings.norm"),
        *affine_mappings(f"{ENCODER}.norm", "final_norm"),
    ]


def layer(number: int) -> list[TensorMapping]:
    """Tensors of one layer; the first has no norm of the attention's input."""
    name, hf_name = f"{ENCODER}.layers.{number}", f"layers.{number}"
    first_norm = affine_mappings(f"{name}.after_attention.norm", f"{hf_name}.attn_norm")
    return [
        *(first_norm if number else []),
        *affine_mappings(f"{name}.attention.project.qkv", f"{hf_name}.attn.Wqkv"),
        *affine_mappings(f"{name}.attention.output", f"{hf_name}.attn.Wo"),
        *affine_mappings(f"{name}.after_feed_forward.norm", f"{hf_name}.mlp_norm"),
        *affine_mappings(f"{name}.feed_forward.wide", f"{hf_name}.mlp.Wi"),
        *affine_mappings(f"{name}.feed_forward.back", f"{hf_name}.mlp.Wo"),
    ]


MODERNBERT = ModelType(
    model_type="modernbert",
    prefix="model.",
    class_prefix="ModernBert",
    arch="modernbert",
    settings={
        "hidden_size": "width",
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads",
        "intermediate_size": "feed_forward_width",
        "max_position_embeddings": "max_positions",
        "embedding_dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "norm_eps": "norm_epsilon",
        "local_attention": "attention_window",
    },
    defaults={
        **{"vocab_size": 50368, "hidden_size": 768, "num_hidden_layers": 22},
        **{"num_attention_heads": 12, "intermediate_size": 1152},
        **{"max_position_embeddings": 8192, "embedding_dropout": 0.0, "attention_dropout": 0.0},
        **{"norm_eps": 1e-5, "local_attention": 128},
    },
    fixed={
        **{"hidden_activation": ("gelu", "gelu_python"), "classifier_activation": ("gelu",)},
        **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), (False,)),
        **{"decoder_bias": (True,), "mlp_dropout": (0.0,), "tie_word_embeddings": (True,)},
    },
    transform="head.dense",
    norm="head.norm",
    bias="decoder.bias",
    tied={"decoder.weight": "embeddings.tok_embeddings.weight"},
    extra={name: f"hugging_face.{name}" for name in ("head.", "classifier.")},
    inner=("embeddings.", "layers.", "final_norm."),
    embeddings=embeddings,
    layer=layer,
)


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
    parameters = config.get("rope_parameters") or {}
    if isinstance(parameters, dict):
        parameters = parameters.get(kind) or {}
    if not isinstance(parameters, dict):
        return None
    base = parameters.get("rope_theta", config.get(OLD_BASES[kind], BASES[kind]))
    plain = parameters.get("rope_type", "default") == "default" and not config.get("rope_scaling")
    return float(base) if plain and isinstance(base, int | float) and base > 0 else None


def position_mismatches(config: JsonObject) -> list[Mismatch]:
    """Unsupported orders of layers and rotations."""
    problems = []
    if find_global_every(config) is None:
        where, valid = "layer_types", f"one per layer, {GLOBAL} in the first and at equal distances"
        if config.get(where) is None:
            where, valid = OLD_EVERY, "a positive int"
        problems.append(Mismatch("setting", f"config.json: {where}", str(config[where]), valid))
    if None in (rope_base(config, GLOBAL), rope_base(config, LOCAL)):
        found = str(config.get("rope_parameters") or config.get("rope_scaling"))
        where, valid = "config.json: rope_parameters", "rope_type default and a positive rope_theta"
        problems.append(Mismatch("setting", where, found, valid))
    return problems


def dropout_note(arch: ArchConfig) -> str:
    """A note on dropout at other places than in Transformers, in spite of equal outputs."""
    if not isinstance(arch, ModernBertConfig) or not (arch.dropout or arch.attention_dropout):
        return ""
    return (
        "Transformers has attention_dropout after attention and no dropout after feed-forward "
        "networks, this model has arch.dropout after both: fine-tuning differs, predictions do not"
    )


def position_options(config: JsonObject) -> JsonObject:
    """Options of global and local layers."""
    return {
        "global_every": find_global_every(config),
        "rope_base": rope_base(config, GLOBAL),
        "local_rope_base": rope_base(config, LOCAL),
    }


def position_settings(c: ModernBertConfig) -> JsonObject:
    """The settings that `position_options` reads, for Transformers 4 and 5."""
    bases = {GLOBAL: c.rope_base, LOCAL: c.local_rope_base or c.rope_base}
    return {
        "layer_types": layer_types(c.layers, c.global_every),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()
        },
        OLD_EVERY: c.global_every,
        **{OLD_BASES[kind]: base for kind, base in bases.items()},
    }
