"""Models of Hugging Face Transformers at the sizes of the toolkit's, randomly initialized."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn


class Size(NamedTuple):
    layers: int
    width: int
    heads: int


SIZES = {"tiny": Size(1, 32, 2), "small": Size(12, 256, 4), "base": Size(12, 768, 12)}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1}


def make_model(name: str, size: str, vocabulary: int, length: int) -> nn.Module:
    """A masked language model: `BERT`, `DeBERTa-v2` or `ModernBERT`."""
    layers, width, heads = SIZES[size]
    common = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": max(length, 128),
    }
    return MODELS[name](common, width)


def bert(common: dict[str, Any], width: int) -> nn.Module:
    import transformers

    config = transformers.BertConfig(**common, intermediate_size=4 * width)
    return transformers.BertForMaskedLM(config)


def deberta(common: dict[str, Any], width: int) -> nn.Module:
    """With content-to-position and position-to-content attention, as published."""
    import transformers

    config = transformers.DebertaV2Config(
        **common,
        intermediate_size=4 * width,
        relative_attention=True,
        max_relative_positions=common["max_position_embeddings"],
        pos_att_type=["c2p", "p2c"],
        position_biased_input=False,
        type_vocab_size=0,
    )
    return transformers.DebertaV2ForMaskedLM(config)


def modernbert(common: dict[str, Any], width: int) -> nn.Module:
    """Gated feed-forward networks with the number of weights that BERT's have; no dropout."""
    import transformers

    inner = round(8 * width / 3 / 64) * 64
    config = transformers.ModernBertConfig(
        **common, **SPECIAL, sep_token_id=2, intermediate_size=inner
    )
    return transformers.ModernBertForMaskedLM(config)


MODELS = {"BERT": bert, "DeBERTa-v2": deberta, "ModernBERT": modernbert}
