"""A model type of Hugging Face Transformers: the names of its settings and tensors.

Names are those of transformers 4 and 5; older names (gamma, beta) are replaced when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from toolkit.common.json_files import JsonObject
from toolkit.conversion.tensor_mapping import TensorMapping, affine_mappings
from toolkit.models.encoder import EncoderConfig

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
    settings: Mapping[str, str]
    """Setting -> option of the architecture."""
    defaults: Mapping[str, int | float]
    fixed: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: FIXED)
    """Settings with the values that the toolkit supports, the one for export first."""
    omitted: JsonObject = field(default_factory=dict)
    """Fixed settings whose default in Transformers is another than the first."""
    head_dropout: str = "classifier_dropout"
    """Setting of the dropout before a classifier's output."""
    transform: str
    """First linear map of the masked language model's head, before its norm and bias."""
    norm: str
    bias: str
    tied: Mapping[str, str]
    """Copies in older files -> the tensors that they are tied to."""
    extra: Mapping[str, str]
    """Prefixes of tensors outside encoder and head -> the toolkit's prefixes."""
    inner: tuple[str, ...] = ("embeddings.", "embeddings_project.", "encoder.", "pooler.")
    """Beginnings of the encoder's tensors, without the prefix."""
    embeddings: Callable[[EncoderConfig], list[TensorMapping]]
    """Mappings outside the layers."""
    layer: Callable[[int], list[TensorMapping]]

    def mappings(self, arch: EncoderConfig, *, head: bool) -> list[TensorMapping]:
        """Mappings of an encoder, with or without the masked language model's head."""
        mappings = self.embeddings(arch)
        for number in range(arch.layers):
            mappings += self.layer(number)
        if head:
            mappings += affine_mappings(f"{HEAD}.transform", self.transform)
            mappings += affine_mappings(f"{HEAD}.norm", self.norm)
            mappings.append(TensorMapping(f"{HEAD}.bias", (self.bias,)))
        if not arch.biases:
            mappings = [m for m in mappings if is_weight_or_output(m.toolkit_name)]
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


def is_weight_or_output(name: str) -> bool:
    """Whether a tensor is not a bias, or that of the vocabulary, which every head has."""
    return not name.endswith(".bias") or name == f"{HEAD}.bias"


def replace_prefix(name: str, prefixes: Mapping[str, str]) -> str | None:
    """The name with another prefix; None if it has none of these."""
    for old, new in prefixes.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None


def table_mappings(*names: str) -> list[TensorMapping]:
    """Tables of the embeddings, and their norm."""
    tables = {"words": "word", "types": "token_type", "positions": "position"}
    embeddings = f"{ENCODER}.embeddings"
    mappings = [
        TensorMapping(f"{embeddings}.{n}.weight", (f"embeddings.{tables[n]}_embeddings.weight",))
        for n in names
    ]
    return mappings + affine_mappings(f"{embeddings}.norm", "embeddings.LayerNorm")


def layer_names(number: int) -> tuple[str, str]:
    """Prefix of a layer's tensors in the toolkit and in Transformers."""
    return f"{ENCODER}.layers.{number}", f"encoder.layer.{number}"


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
