"""Supported model types of Hugging Face Transformers, with the names of their settings and tensors.

Names are those of transformers 4 and 5; older names (gamma, beta) are replaced when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings

ENCODER, HEAD = "encoder", "task.head"
POOLER = "task.pooler"
"""Prefix of BERT's pooler, from which fine-tuning heads load it."""

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
DEFAULTS: dict[str, int | float] = {
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

FIXED: dict[str, tuple[str | bool, ...]] = {
    "hidden_act": ("gelu", "gelu_python"),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}
"""Settings with the values that the toolkit supports, the default first; may be omitted."""


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """A model type of Transformers."""

    model_type: str
    """`model_type` of config.json; also the prefix of the encoder's tensors if there is a head."""
    class_prefix: str
    """Beginning of the names of its classes."""
    arch: str
    """Name of the toolkit's architecture."""
    settings: Mapping[str, str]
    """Setting -> option of the architecture."""
    defaults: Mapping[str, int | float]
    transform: str
    """First linear map of the masked language model's head, before its norm and bias."""
    norm: str
    bias: str
    tied: Mapping[str, str]
    """Copies in older files -> the tensors that they are tied to."""
    extra: Mapping[str, str]
    """Prefixes of tensors outside encoder and head -> the toolkit's prefixes."""
    layer: Callable[[int], list[TensorMapping]]

    def mappings(self, layers: int, *, projected: bool, head: bool) -> list[TensorMapping]:
        """Mappings of an encoder, with or without the masked language model's head."""
        mappings = embedding_mappings(projected)
        for number in range(layers):
            mappings += self.layer(number)
        if head:
            mappings += affine_mappings(f"{HEAD}.transform", self.transform)
            mappings += affine_mappings(f"{HEAD}.norm", self.norm)
            mappings.append(TensorMapping(f"{HEAD}.bias", (self.bias,)))
        return mappings

    @property
    def head(self) -> tuple[str, ...]:
        """Prefixes of the masked language model's head."""
        return (self.transform, self.norm, self.bias)

    def toolkit_name(self, name: str) -> str | None:
        """The toolkit's name of a tensor outside encoder and head; None for other tensors."""
        return replace_prefix(name, self.extra)

    def external_name(self, name: str) -> str | None:
        """The inverse of `toolkit_name`."""
        return replace_prefix(name, {prefix: external for external, prefix in self.extra.items()})


def replace_prefix(name: str, prefixes: Mapping[str, str]) -> str | None:
    """The name with another prefix; None if it has none of these."""
    for old, new in prefixes.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None


def embedding_mappings(projected: bool) -> list[TensorMapping]:
    """Tensors of the embeddings; `projected` if their width differs from the model's."""
    embeddings = f"{ENCODER}.embeddings"
    tables = {"words": "word", "types": "token_type", "positions": "position"}
    mappings = [
        TensorMapping(f"{embeddings}.{name}.weight", (f"embeddings.{hf_name}_embeddings.weight",))
        for name, hf_name in tables.items()
    ]
    mappings += affine_mappings(f"{embeddings}.norm", "embeddings.LayerNorm")
    if projected:
        mappings += affine_mappings(f"{embeddings}.widen", "embeddings_project")
    return mappings


def layer_names(number: int) -> tuple[str, str]:
    """Prefix of a layer's tensors in the toolkit and in Transformers."""
    return f"{ENCODER}.layers.{number}", f"encoder.layer.{number}"


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


def after_attention_mappings(number: int) -> list[TensorMapping]:
    """Mappings of the parts of a layer after its attention."""
    layer, hf_layer = layer_names(number)
    return [
        *affine_mappings(f"{layer}.attention.output", f"{hf_layer}.attention.output.dense"),
        *affine_mappings(f"{layer}.after_attention.norm", f"{hf_layer}.attention.output.LayerNorm"),
        *affine_mappings(f"{layer}.feed_forward.wide", f"{hf_layer}.intermediate.dense"),
        *affine_mappings(f"{layer}.feed_forward.back", f"{hf_layer}.output.dense"),
        *affine_mappings(f"{layer}.after_feed_forward.norm", f"{hf_layer}.output.LayerNorm"),
    ]


WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
CLASSIFIER_TENSORS = {
    name: f"hugging_face.{name}" for name in ("classifier.", "qa_outputs.", "sequence_summary.")
}
"""Heads that no task uses."""

BERT = ModelType(
    model_type="bert",
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
    layer=bert_layer,
)

ELECTRA = ModelType(
    model_type="electra",
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
    layer=bert_layer,
)

CONVBERT = ModelType(
    model_type="convbert",
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
    layer=convbert_layer,
)

DISENTANGLED = (
    "Its layers project vectors of offsets per head, for both queries and keys: composite_bert has "
    "one vector per offset for all heads, and taco a separate position stream."
)
DIFFERENCES = {
    "deberta": DISENTANGLED,
    "deberta-v2": f"{DISENTANGLED} It also puts offsets into buckets.",
    "modernbert": (
        "It has rotary positions, gated feed-forward networks, norms before each sublayer and "
        "local attention, which no architecture of the toolkit has."
    ),
}
"""Model type without a counterpart -> how it differs from the toolkit's architectures."""

MODEL_TYPES = {it.model_type: it for it in (BERT, ELECTRA, CONVBERT)}
