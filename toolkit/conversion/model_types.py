"""Model types of Hugging Face Transformers: the names of their settings and tensors.

Names are those of transformers 4 and 5; older names (gamma, beta) are replaced when a file is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.common.json_files import JsonObject
from toolkit.conversion.tensors import NameTable, TensorMapping, find_mappings

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

FIXED: dict[str, tuple[object, ...]] = {
    "hidden_act": ("gelu", "gelu_python"),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}
"""Settings with the values that the toolkit supports, the default first; may be omitted."""

WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"
CLASSIFIER_TENSORS = {
    name: f"hugging_face.{name}" for name in ("classifier.", "qa_outputs.", "sequence_summary.")
}
"""Heads that no task uses."""


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """A model type of Transformers."""

    model_type: str
    """`model_type` of config.json."""
    prefix: str
    """Prefix of the encoder's tensors if there is a head."""
    class_prefix: str
    """Beginning of the names of its classes."""
    arch: str
    """Name of the toolkit's architecture."""
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    """Setting -> option of the architecture."""
    defaults: Mapping[str, int | float] = field(default_factory=lambda: DEFAULTS)
    fixed: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: FIXED)
    """Settings with the values that the toolkit supports, the one for export first."""
    head_dropout: str = "classifier_dropout"
    """Setting of the dropout before a classifier's output."""
    encoder: NameTable
    """Names of the encoder's tensors."""
    head: NameTable
    """Names of the masked language model's head."""
    shapes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tensors with another shape than in the toolkit, as in `find_mappings`."""
    tied: Mapping[str, str]
    """Copies in older files -> the tensors that they are tied to."""
    extra: Mapping[str, str]
    """Prefixes of tensors outside encoder and head -> the toolkit's prefixes."""
    inner: tuple[str, ...] = ("embeddings.", "embeddings_project.", "encoder.", "pooler.")
    """Beginnings of the encoder's tensors, without the prefix."""
    token_tasks: tuple[str, ...] = ("mlm",)
    """Tasks whose head is that of its masked language model, the one for import first."""
    code: Mapping[str, str] = field(default_factory=dict)
    """`auto_map` of config.json, if its classes are not part of Transformers."""

    def mappings(self, names: Iterable[str], head: NameTable) -> list[TensorMapping]:
        """Mappings of the tensors of a learner that the encoder or this head has."""
        return find_mappings(names, {**self.encoder, **head}, self.shapes)


def replace_prefix(name: str, prefixes: Mapping[str, str]) -> str | None:
    """The name with another prefix; None if it has none of these."""
    for old, new in prefixes.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None


BLOCK = {
    "encoder.embeddings.words": "embeddings.word_embeddings",
    "encoder.embeddings.types": "embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "embeddings.LayerNorm",
    "encoder.layers.*.attention.output": "encoder.layer.*.attention.output.dense",
    "encoder.layers.*.after_attention.norm": "encoder.layer.*.attention.output.LayerNorm",
    "encoder.layers.*.feed_forward.wide": "encoder.layer.*.intermediate.dense",
    "encoder.layers.*.feed_forward.back": "encoder.layer.*.output.dense",
    "encoder.layers.*.after_feed_forward.norm": "encoder.layer.*.output.LayerNorm",
}
"""Names that BERT, ELECTRA, ConvBERT and DeBERTa share."""
QKV, SELF = "encoder.layers.*.attention.project.qkv", "encoder.layer.*.attention.self"
BERT_ENCODER = {
    **BLOCK,
    "encoder.embeddings.positions": "embeddings.position_embeddings",
    "encoder.embeddings.widen": "embeddings_project",
    QKV: f"{SELF}.{{query key value}}",
}
BERT_HEAD = {
    "task.head.transform": "cls.predictions.transform.dense",
    "task.head.norm": "cls.predictions.transform.LayerNorm",
    "task.head": "cls.predictions",
}
GENERATOR_HEAD = {
    "task.head.transform": "generator_predictions.dense",
    "task.head.norm": "generator_predictions.LayerNorm",
    "task.head": "generator_lm_head",
}
TIED_TO_BERT_HEAD = {
    "cls.predictions.decoder.weight": WORD_EMBEDDINGS,
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}

BERT = ModelType(
    model_type="bert",
    prefix="bert.",
    class_prefix="Bert",
    arch="bert",
    encoder=BERT_ENCODER,
    head=BERT_HEAD,
    tied=TIED_TO_BERT_HEAD,
    extra={
        "pooler.dense.": f"{POOLER}.",
        "cls.seq_relationship.": "hugging_face.cls.seq_relationship.",
        **CLASSIFIER_TENSORS,
    },
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
    encoder=BERT_ENCODER,
    head=GENERATOR_HEAD,
    tied={"generator_lm_head.weight": WORD_EMBEDDINGS},
    extra={
        "discriminator_predictions.dense.": f"{HEAD}.transform.",
        "discriminator_predictions.dense_prediction.": f"{HEAD}.score.",
        **CLASSIFIER_TENSORS,
    },
)

CONVOLUTION = "encoder.layers.*.attention.values.convolution.kernel"
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
    encoder={
        **BERT_ENCODER,
        QKV: f"{SELF}.{{query key value conv_out_layer}}",
        f"{CONVOLUTION}.generate": f"{SELF}.conv_kernel_layer",
        f"{CONVOLUTION}.span.depthwise.convolution": f"{SELF}.key_conv_attn_layer.depthwise",
        f"{CONVOLUTION}.span.pointwise.weight": f"{SELF}.key_conv_attn_layer.pointwise.weight",
        f"{CONVOLUTION}.span.pointwise.bias": f"{SELF}.key_conv_attn_layer.bias",
    },
    shapes={
        f"{CONVOLUTION}.span.pointwise.weight": {"axis": 2},
        f"{CONVOLUTION}.span.pointwise.bias": {"axis": 1},
    },
    head=GENERATOR_HEAD,
    tied={"generator_lm_head.weight": WORD_EMBEDDINGS},
    extra=CLASSIFIER_TENSORS,
)

DEBERTA = ModelType(
    model_type="deberta-v2",
    prefix="deberta.",
    class_prefix="DebertaV2",
    arch="deberta",
    settings={
        **{name: option for name, option in SETTINGS.items() if option != "max_positions"},
        **{"conv_kernel_size": "convolution_size", "conv_groups": "convolution_groups"},
    },
    defaults={
        **{**DEFAULTS, "vocab_size": 128100, "hidden_size": 1536, "num_hidden_layers": 24},
        **{"num_attention_heads": 24, "intermediate_size": 6144, "type_vocab_size": 0},
        **{"layer_norm_eps": 1e-7, "position_buckets": -1, "max_relative_positions": -1},
        **{"conv_kernel_size": 0, "conv_groups": 1},
    },
    fixed={
        **{name: values for name, values in FIXED.items() if name != "position_embedding_type"},
        "relative_attention": (True, False),
        "position_biased_input": (False, True),
        "share_att_key": (True, False),
        "conv_act": ("tanh", "gelu", "relu", "silu"),
        "legacy": (True, False),
        "pooler_dropout": (0,),
        "pooler_hidden_act": ("gelu",),
    },
    head_dropout="cls_dropout",
    encoder={
        **BLOCK,
        "encoder.offset_embedding.table": "encoder.rel_embeddings",
        "encoder.offset_embedding.norm": "encoder.LayerNorm",
        "encoder.embeddings.positions": "embeddings.position_embeddings",
        "encoder.layers.*.convolution.convolution": "encoder.conv.conv",
        "encoder.layers.*.convolution.norm": "encoder.conv.LayerNorm",
        "encoder.layers.*.attention.project.offset_query": f"{SELF}.pos_query_proj",
        "encoder.layers.*.attention.project.offset_key": f"{SELF}.pos_key_proj",
        QKV: f"{SELF}.{{query key value}}_proj",
    },
    head=BERT_HEAD,
    tied=TIED_TO_BERT_HEAD,
    extra={
        "pooler.dense.": f"{POOLER}.",
        "mask_predictions.": "hugging_face.mask_predictions.",
        "embeddings.position_embeddings.": "hugging_face.embeddings.position_embeddings.",
        "encoder.rel_embeddings.": "hugging_face.encoder.rel_embeddings.",
        "encoder.LayerNorm.": "hugging_face.encoder.LayerNorm.",
        **CLASSIFIER_TENSORS,
    },
    inner=("embeddings.", "encoder."),
)
"""DeBERTa's second and third version, with the head that Transformers calls legacy, the only one
before its version 4.48.

Published models of the third version also have the head of replaced tokens, and the positions of
the paper's output layer, which Transformers ignores.
"""
NEW_DEBERTA_HEAD = {
    "task.head.transform": "lm_predictions.lm_head.dense",
    "task.head.norm": "lm_predictions.lm_head.LayerNorm",
    "task.head": "lm_predictions.lm_head",
}
"""The head of published models, which Transformers computes if `legacy` is false."""

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
    encoder={
        "encoder.embeddings.words": "embeddings.tok_embeddings",
        "encoder.embeddings.norm": "embeddings.norm",
        "encoder.norm": "final_norm",
        "encoder.layers.*.after_attention.norm": "layers.*.attn_norm",  # the first has none
        QKV: "layers.*.attn.Wqkv",
        "encoder.layers.*.attention.output": "layers.*.attn.Wo",
        "encoder.layers.*.after_feed_forward.norm": "layers.*.mlp_norm",
        "encoder.layers.*.feed_forward.wide": "layers.*.mlp.Wi",
        "encoder.layers.*.feed_forward.back": "layers.*.mlp.Wo",
    },
    head={
        "task.head.transform": "head.dense",
        "task.head.norm": "head.norm",
        "task.head": "decoder",
    },
    tied={"decoder.weight": "embeddings.tok_embeddings.weight"},
    extra={name: f"hugging_face.{name}" for name in ("head.", "classifier.")},
    inner=("embeddings.", "layers.", "final_norm."),
)

LTG_BERT = ModelType(
    model_type="ltgbert",
    prefix="",
    class_prefix="Ltgbert",
    arch="ltg_bert",
    settings={
        **{name: option for name, option in SETTINGS.items() if name != "type_vocab_size"},
        **{"max_position_embeddings": "max_distance", "position_bucket_size": "position_buckets"},
    },
    defaults={
        **{name: value for name, value in DEFAULTS.items() if name != "type_vocab_size"},
        **{"vocab_size": 16384, "intermediate_size": 2560, "position_bucket_size": 32},
        "layer_norm_eps": 1e-7,
    },
    fixed={name: FIXED[name] for name in ("is_decoder", "tie_word_embeddings")},
    encoder={
        "encoder.embeddings.words": "embedding.word_embedding",
        "encoder.offset_embedding.table.weight": "embedding.relative_embedding",
        "encoder.offset_embedding.norm": "embedding.relative_layer_norm",
        QKV: "transformer.layers.*.attention.in_proj_{q k v}",
        "encoder.layers.*.attention.output.0": "transformer.layers.*.attention.out_proj",
        "encoder.layers.*.attention.output.1": "transformer.layers.*.attention.post_layer_norm",
        "encoder.layers.*.feed_forward.wide": "transformer.layers.*.mlp.mlp.1",
        "encoder.layers.*.feed_forward.back.1": "transformer.layers.*.mlp.mlp.4",
    },
    head={
        "task.head.transform": "classifier.nonlinearity.1",
        "task.head": "classifier.nonlinearity.5",
    },
    tied={"classifier.nonlinearity.5.weight": "embedding.word_embedding.weight"},
    extra={"head.": "hugging_face.head."},
    inner=("embedding.", "transformer."),
    token_tasks=("mlm", "hybrid"),
    code={
        "AutoConfig": "configuration_ltgbert.LtgbertConfig",
        "AutoModel": "modeling_ltgbert.LtgbertModel",
        "AutoModelForMaskedLM": "modeling_ltgbert.LtgbertForMaskedLM",
    },
)
"""LTG-BERT by the names of `unpack`, which its authors' code has in other tensors."""

GPT_BERT = replace(
    LTG_BERT,
    model_type="gpt_bert",
    prefix="model.",
    class_prefix="GPTBERT",
    arch="gpt_bert",
    encoder={
        **{it: name for it, name in LTG_BERT.encoder.items() if ".layers." not in it},
        QKV: "attention_layers.*.in_proj_{q k v}",
        "encoder.layers.*.attention.gate": "attention_layers.*.in_proj_g",
        "encoder.layers.*.attention.output.1": "attention_layers.*.out_proj",
        "encoder.layers.*.feed_forward.wide": "mlp_layers.*.mlp.1",
        "encoder.layers.*.feed_forward.back.1": "mlp_layers.*.mlp.4",
        "encoder.layers.layer_weights": "dwa_modules.alphas",
    },
    head={"task.head.transform": "lm_head.nonlinearity.1", "task.head": "lm_head.nonlinearity.5"},
    tied={"lm_head.nonlinearity.5.weight": "embedding.word_embedding.weight"},
    inner=("embedding.", "attention_layers.", "mlp_layers.", "dwa_modules."),
    token_tasks=("hybrid", "mlm"),
    code={
        "AutoConfig": "configuration_gpt_bert.ModelConfig",
        "AutoModel": "modeling_gpt_bert.GPTBERT",
        "AutoModelForCausalLM": "modeling_gpt_bert.GPTBERTForCausalLM",
        "AutoModelForMaskedLM": "modeling_gpt_bert.GPTBERTForMaskedLM",
    },
)

DIFFERENCES = {
    "deberta": (
        "Its layers have separate projections of offsets and no logarithmic buckets: the "
        "architecture deberta computes the second version, model_type deberta-v2."
    )
}
"""Model type without a counterpart -> how it differs from the toolkit's architectures."""

MODEL_TYPES = {
    it.model_type: it for it in (BERT, ELECTRA, CONVBERT, DEBERTA, MODERNBERT, LTG_BERT, GPT_BERT)
}


def choose_head(model_type: ModelType, config: JsonObject) -> ModelType:
    """The model type with the head that the config names."""
    is_new = model_type is DEBERTA and config.get("legacy") is False
    return replace(DEBERTA, head=NEW_DEBERTA_HEAD, tied={}) if is_new else model_type
