"""Names and settings of DeBERTa's second and third version in Transformers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolkit.common.json_files import JsonObject
from toolkit.conversion.huggingface.model_type import (
    CLASSIFIER_TENSORS,
    DEFAULTS,
    ENCODER,
    FIXED,
    POOLER,
    SETTINGS,
    WORD_EMBEDDINGS,
    ModelType,
    after_attention_mappings,
    layer_names,
    table_mappings,
)
from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings
from toolkit.models.encoder import EncoderConfig

NEW_HEAD, OLD_HEAD = "lm_predictions.lm_head", "cls.predictions"


def embeddings(arch: EncoderConfig) -> list[TensorMapping]:
    """Tensors of the embeddings, and of the table of offsets that all layers share."""
    tables, offsets = ("words", "types") if arch.token_types else ("words",), "offset_embedding"
    return [
        *table_mappings(*tables),
        TensorMapping(f"{ENCODER}.{offsets}.table.weight", ("encoder.rel_embeddings.weight",)),
        *affine_mappings(f"{ENCODER}.{offsets}.norm", "encoder.LayerNorm"),
    ]


def layer(number: int) -> list[TensorMapping]:
    """Tensors of one layer."""
    name, hf_name = layer_names(number)
    projections = (f"{hf_name}.attention.self.{part}_proj" for part in ("query", "key", "value"))
    return [
        *affine_mappings(f"{name}.attention.project.qkv", *projections),
        *after_attention_mappings(number),
    ]


DEBERTA = ModelType(
    model_type="deberta-v2",
    prefix="deberta.",
    class_prefix="DebertaV2",
    arch="deberta",
    settings={
        **{name: option for name, option in SETTINGS.items() if option != "max_positions"},
        **{"max_position_embeddings": "max_distance", "position_buckets": "position_buckets"},
    },
    defaults={
        **{**DEFAULTS, "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24},
        **{"num_attention_heads": 24, "intermediate_size": 6144, "type_vocab_size": 0},
        **{"layer_norm_eps": 1e-7, "position_buckets": -1},
    },
    fixed={
        **{name: values for name, values in FIXED.items() if name != "position_embedding_type"},
        "relative_attention": (True,),
        "position_biased_input": (False,),
        "pos_att_type": ("p2c|c2p", "c2p|p2c", ["p2c", "c2p"], ["c2p", "p2c"]),
        "share_att_key": (True,),
        "norm_rel_ebd": ("layer_norm",),
        "conv_kernel_size": (0,),
        "legacy": (True, False),
        "pooler_dropout": (0,),
        "pooler_hidden_act": ("gelu",),
    },
    omitted={
        **{"relative_attention": False, "position_biased_input": True, "pos_att_type": None},
        **{"share_att_key": False, "norm_rel_ebd": "none"},
    },
    head_dropout="cls_dropout",
    transform=f"{OLD_HEAD}.transform.dense",
    norm=f"{OLD_HEAD}.transform.LayerNorm",
    bias=f"{OLD_HEAD}.bias",
    tied={
        f"{OLD_HEAD}.decoder.weight": WORD_EMBEDDINGS,
        f"{OLD_HEAD}.decoder.bias": f"{OLD_HEAD}.bias",
    },
    extra={
        "pooler.dense.": f"{POOLER}.",
        "mask_predictions.": "hugging_face.mask_predictions.",
        "embeddings.position_embeddings.": "hugging_face.embeddings.position_embeddings.",
        **CLASSIFIER_TENSORS,
    },
    inner=("embeddings.", "encoder."),
    embeddings=embeddings,
    layer=layer,
)
"""With the head that Transformers calls legacy, the only one before its version 4.48.

Published models of the third version also have the head of replaced tokens, and the positions of
the paper's output layer, which Transformers ignores.
"""

DEBERTA_WITH_NEW_HEAD = replace(
    DEBERTA,
    transform=f"{NEW_HEAD}.dense",
    norm=f"{NEW_HEAD}.LayerNorm",
    bias=f"{NEW_HEAD}.bias",
    tied={},
)
"""With the head of published models, which Transformers computes if `legacy` is false."""


def choose_head(model_type: ModelType, config: JsonObject) -> ModelType:
    """The model type with the head that the config names."""
    has_new_head = model_type is DEBERTA and config.get("legacy") is False
    return DEBERTA_WITH_NEW_HEAD if has_new_head else model_type


def name_head(config: JsonObject, tensors: Iterable[str]) -> JsonObject:
    """The config with the head that the tensors have; published ones do not name it."""
    names = tuple(tensors)
    for head, legacy in ((NEW_HEAD, False), (OLD_HEAD, True)):
        if any(head in name for name in names):
            return {**config, "legacy": legacy}
    return config


def dependent_settings(config: JsonObject) -> dict[str, tuple[object, ...]]:
    """Settings whose supported values depend on others."""
    settings = {**DEBERTA.defaults, **config}
    width, heads = settings["hidden_size"], settings["num_attention_heads"]
    by_head = width // heads if isinstance(width, int) and isinstance(heads, int) and heads else 0
    return {
        "max_relative_positions": (-1, 0, settings["max_position_embeddings"]),
        "embedding_size": (width,),
        "pooler_hidden_size": (width,),
        "attention_head_size": (by_head,),
    }
