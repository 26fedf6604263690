"""Supported model types of Hugging Face Transformers."""

from __future__ import annotations

from toolkit.conversion.huggingface.deberta import DEBERTA
from toolkit.conversion.huggingface.model_type import (
    CLASSIFIER_TENSORS,
    DEFAULTS,
    ENCODER,
    HEAD,
    POOLER,
    SETTINGS,
    WORD_EMBEDDINGS,
    ModelType,
    after_attention_mappings,
    layer_names,
    table_mappings,
)
from toolkit.conversion.huggingface.modernbert import MODERNBERT
from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings
from toolkit.models.encoder import EncoderConfig


def bert_embeddings(arch: EncoderConfig) -> list[TensorMapping]:
    """Tensors of the embeddings of BERT, ELECTRA and ConvBERT."""
    embeddings = f"{ENCODER}.embeddings"
    mappings = table_mappings("words", "types", "positions")
    if arch.projects_embeddings:
        mappings += affine_mappings(f"{embeddings}.widen", "embeddings_project")
    return mappings


def bert_layer(number: int) -> list[TensorMapping]:
    """Tensors of one layer of BERT."""
    layer, hf_layer = layer_names(number)
    projections = (f"{hf_layer}.attention.self.{part}" for part in ("query", "key", "value"))
    return [
        *affine_mappings(f"{layer}.attention.project.qkv", *projections),
        *after_attention_mappings(number),
    ]


def convbert_layer(number: int) -> list[TensorMapping]:
    """Tensors of one layer of ConvBERT."""
    layer, hf_layer = layer_names(number)
    attention, hf_attention = f"{layer}.attention", f"{hf_layer}.attention.self"
    kernel, span = f"{attention}.values.convolution.kernel", f"{hf_attention}.key_conv_attn_layer"
    parts = ("query", "key", "value", "conv_out_layer")
    depthwise, pointwise = f"{kernel}.span.depthwise.convolution", f"{kernel}.span.pointwise"
    return [
        *affine_mappings(f"{attention}.project.qkv", *(f"{hf_attention}.{p}" for p in parts)),
        *affine_mappings(f"{kernel}.generate", f"{hf_attention}.conv_kernel_layer"),
        TensorMapping(f"{depthwise}.weight", (f"{span}.depthwise.weight",)),
        TensorMapping(f"{pointwise}.weight", (f"{span}.pointwise.weight",), axis=2),
        TensorMapping(f"{pointwise}.bias", (f"{span}.bias",), axis=1),
        *after_attention_mappings(number),
    ]


BERT = ModelType(
    model_type="bert",
    prefix="bert.",
    class_prefix="Bert",
    arch="bert",
    settings=SETTINGS,
    defaults=DEFAULTS,
    transform="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    bias="cls.predictions.bias",
    tied={
        "cls.predictions.decoder.weight": WORD_EMBEDDINGS,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    extra={
        "pooler.dense.": f"{POOLER}.",
        "cls.seq_relationship.": "hugging_face.cls.seq_relationship.",
        **CLASSIFIER_TENSORS,
    },
    embeddings=bert_embeddings,
    layer=bert_layer,
)

ELECTRA = ModelType(
    model_type="electra",
    prefix="electra.",
    class_prefix="Electra",
    arch="bert",
    settings={**SETTINGS, "embedding_size": "embedding_width"},
    defaults={
        **DEFAULTS,
        **{"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4},
        "intermediate_size": 1024,
    },
    transform="generator_predictions.dense",
    norm="generator_predictions.LayerNorm",
    bias="generator_lm_head.bias",
    tied={"generator_lm_head.weight": WORD_EMBEDDINGS},
    extra={
        "discriminator_predictions.dense.": f"{HEAD}.transform.",
        "discriminator_predictions.dense_prediction.": f"{HEAD}.score.",
        **CLASSIFIER_TENSORS,
    },
    embeddings=bert_embeddings,
    layer=bert_layer,
)

CONVBERT = ModelType(
    model_type="convbert",
    prefix="convbert.",
    class_prefix="ConvBert",
    arch="convbert",
    settings={
        **{**SETTINGS, "embedding_size": "embedding_width"},
        **{"head_ratio": "head_ratio", "conv_kernel_size": "kernel_size", "num_groups": "groups"},
    },
    defaults={
        **{**DEFAULTS, "embedding_size": 768},
        **{"head_ratio": 2, "conv_kernel_size": 9, "num_groups": 1},
    },
    transform="generator_predictions.dense",
    norm="generator_predictions.LayerNorm",
    bias="generator_lm_head.bias",
    tied={"generator_lm_head.weight": WORD_EMBEDDINGS},
    extra=CLASSIFIER_TENSORS,
    embeddings=bert_embeddings,
    layer=convbert_layer,
)

DIFFERENCES = {
    "deberta": (
        "Its layers have separate projections of offsets and no logarithmic buckets: the "
        "architecture deberta computes the second version, model_type deberta-v2."
    ),
}
"""Model type without a counterpart -> how it differs from the toolkit's architectures."""

MODEL_TYPES = {it.model_type: it for it in (BERT, ELECTRA, CONVBERT, DEBERTA, MODERNBERT)}
