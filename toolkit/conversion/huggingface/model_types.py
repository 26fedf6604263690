"""Supported model types of Hugging Face Transformers, with the names of their settings and tensors.

Names are those of transformers 4 and 5; older names (gamma, beta) are replaced when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings

ENCODER, HEAD = "encoder", "task.head"
POOLER = "task.pooler"
"""Where a fine-tuning head with BERT's pooler finds the pooler's weights."""

SETTINGS = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward_width",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "token_types",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "norm_epsilon",
}
DEFAULTS: dict[str, Any] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
}
"""Defaults of the BERT config of Transformers."""

FIXED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("gelu", "gelu_python"),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}
"""Fixed settings of our models, the default first; a config may omit them."""


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """A model type of Transformers."""

    model_type: str
    """`model_type` of config.json; also the prefix of the encoder's tensors if there is a head."""
    arch: str
    """Our architecture."""
    settings: Mapping[str, str]
    """Setting -> option of our architecture."""
    defaults: Mapping[str, Any]
    transform: str
    """First linear map of the masked language model's head, before its norm and bias."""
    norm: str
    bias: str
    tied: Mapping[str, str]
    """Copies in older files -> the tensors that they are tied to."""
    extra: Mapping[str, str]
    """Prefixes of tensors outside encoder and head -> our prefixes."""
    layer: Callable[[int], list[TensorMapping]]

    def mappings(self, layers: int, *, projected: bool, head: bool) -> list[TensorMapping]:
        """Mappings of an encoder, with or without the masked language model's head."""
        found = embedding_mappings(projected)
        for number in range(layers):
            found += self.layer(number)
        if head:
            found += affine_mappings(f"{HEAD}.transform", self.transform) + affine_mappings(
                f"{HEAD}.norm", self.norm
            )
            found.append(TensorMapping(f"{HEAD}.bias", (self.bias,)))
        return found

    @property
    def head(self) -> tuple[str, ...]:
        """Prefixes of the masked language model's head."""
        return (self.transform, self.norm, self.bias)

    def toolkit_name(self, name: str) -> str | None:
        """Our name of a tensor outside encoder and head; None for other tensors."""
        for theirs, ours in self.extra.items():
            if name.startswith(theirs):
                return ours + name.removeprefix(theirs)
        return None

    def external_name(self, name: str) -> str | None:
        """The inverse of `toolkit_name`."""
        for theirs, ours in self.extra.items():
            if name.startswith(ours):
                return theirs + name.removeprefix(ours)
        return None


def embedding_mappings(projected: bool) -> list[TensorMapping]:
    ours = f"{ENCODER}.embeddings"
    tables = {"words": "word", "types": "token_type", "positions": "position"}
    found = [
        TensorMapping(f"{ours}.{name}.weight", (f"embeddings.{theirs}_embeddings.weight",))
        for name, theirs in tables.items()
    ]
    found += affine_mappings(f"{ours}.norm", "embeddings.LayerNorm")
    return found + (affine_mappings(f"{ours}.widen", "embeddings_project") if projected else [])


def bert_layer(number: int) -> list[TensorMapping]:
    ours, theirs = f"{ENCODER}.layers.{number}", f"encoder.layer.{number}"
    three = (f"{theirs}.attention.self.{part}" for part in ("query", "key", "value"))
    return affine_mappings(f"{ours}.attention.project.qkv", *three) + after_attention_mappings(
        ours, theirs
    )


def convbert_layer(number: int) -> list[TensorMapping]:
    ours, theirs = f"{ENCODER}.layers.{number}", f"encoder.layer.{number}"
    attention, kernel = f"{theirs}.attention.self", f"{ours}.attention.values.convolution.kernel"
    parts = ("query", "key", "value", "conv_out_layer")
    separable = f"{attention}.key_conv_attn_layer"
    return [
        *affine_mappings(
            f"{ours}.attention.project.qkv", *(f"{attention}.{part}" for part in parts)
        ),
        *affine_mappings(f"{kernel}.generate", f"{attention}.conv_kernel_layer"),
        TensorMapping(
            f"{kernel}.span.depthwise.convolution.weight", (f"{separable}.depthwise.weight",)
        ),
        TensorMapping(
            f"{kernel}.span.pointwise.weight", (f"{separable}.pointwise.weight",), axis=2
        ),
        TensorMapping(f"{kernel}.span.pointwise.bias", (f"{separable}.bias",), axis=1),
        *after_attention_mappings(ours, theirs),
    ]


def after_attention_mappings(ours: str, theirs: str) -> list[TensorMapping]:
    """Mappings of the parts of a layer after its attention."""
    return [
        *affine_mappings(f"{ours}.attention.output", f"{theirs}.attention.output.dense"),
        *affine_mappings(f"{ours}.after_attention.norm", f"{theirs}.attention.output.LayerNorm"),
        *affine_mappings(f"{ours}.feed_forward.wide", f"{theirs}.intermediate.dense"),
        *affine_mappings(f"{ours}.feed_forward.back", f"{theirs}.output.dense"),
        *affine_mappings(f"{ours}.after_feed_forward.norm", f"{theirs}.output.LayerNorm"),
    ]


WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
CLASSIFIER_TENSORS = {name: f"hugging_face.{name}" for name in ("classifier.", "qa_outputs.")}

BERT = ModelType(
    model_type="bert",
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
    layer=bert_layer,
)

ELECTRA = ModelType(
    model_type="electra",
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
    layer=bert_layer,
)

CONVBERT = ModelType(
    model_type="convbert",
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
    layer=convbert_layer,
)

MODEL_TYPES = {family.model_type: family for family in (BERT, ELECTRA, CONVBERT)}
