"""Every rate of every architecture is in force where its papers have it, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from toolkit import build_model
from toolkit.models.encoder_decoder import EncoderDecoder
from toolkit.models.interface import Inputs
from toolkit.nn.ops import dropout

TOKENS = torch.tensor([[1, 2, 3, 4]])
READS = {"dropout": 1 + 2 * 2, "attention_dropout": 2}  # embeddings, both sublayers; two layers
STACKS = {"dropout": 2 + (2 + 3) * 2}  # decoders have three sublayers
LIGHT = {"encoder_kernels": [3, 3], "decoder_kernels": [3, 3]}
DRAWN = {  # what makes two layers, and how many masks one pass draws by each rate
    "bert_tiny": ({}, READS),
    "composite_bert_tiny": ({}, READS),
    "convbert_tiny": ({}, READS | {"kernel_dropout": 2}),
    "taco_tiny": ({}, {"dropout": 2 + 4 * 2, "attention_dropout": 2}),  # both streams'
    "conv_san_ud": ({"layers": 2, "fixed_length": 4, "character_width": 0}, {"dropout": 2}),
    "transformer_lm_tiny": ({}, READS),
    "transformer_tiny": (
        {"encoder_layers": 2, "decoder_layers": 2},
        STACKS | {"attention_dropout": 3 * 2},
    ),
    "lightconv_tiny": (LIGHT, STACKS | {"kernel_dropout": 4, "attention_dropout": 2}),
    "dynamicconv_tiny": (LIGHT, STACKS | {"kernel_dropout": 4, "attention_dropout": 2}),
}


def read(model):
    states = model(Inputs(TOKENS))
    if isinstance(model, EncoderDecoder):
        model.decode(TOKENS, states)


@pytest.mark.parametrize(("name", "rate"), [(name, r) for name in DRAWN for r in DRAWN[name][1]])
def test_each_rate_drops_what_it_is_for(name, rate, monkeypatch):
    masks, drawn = [], dropout.fill_random_blocks
    monkeypatch.setattr(
        dropout, "fill_random_blocks", lambda words: masks.append(words) or drawn(words)
    )
    shape, known = DRAWN[name]
    rates = dict.fromkeys(known, 0.0) | {rate: 0.5}
    model = build_model(name, vocabulary_size=9, **shape, **rates).train()
    read(model)
    assert len(masks) == known[rate]
    read(model.eval())
    assert len(masks) == known[rate]
