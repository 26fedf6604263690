"""Every dropout rate of every architecture acts where its paper has it, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from toolkit import build_model
from toolkit.models.encoder_decoder import EncoderDecoder
from toolkit.models.interface import Inputs
from toolkit.nn.ops import dropout

TOKENS = torch.tensor([[1, 2, 3, 4]])
ENCODER = {"dropout": 1 + 2 * 2, "attention_dropout": 2}  # embeddings, both sublayers; two layers
STACKS = {"dropout": 2 + (2 + 3) * 2}  # decoders have three sublayers
LIGHT = {"encoder_kernels": [3, 3], "decoder_kernels": [3, 3]}
MASKS = {  # options for two layers, and the number of masks per pass and rate
    "bert_tiny": ({}, ENCODER),
    "composite_bert_tiny": ({}, ENCODER),
    "convbert_tiny": ({}, ENCODER | {"kernel_dropout": 2}),
    "taco_tiny": ({}, {"dropout": 2 + 4 * 2, "attention_dropout": 2}),  # of both streams
    "conv_san_ud": ({"layers": 2, "fixed_length": 4, "character_width": 0}, {"dropout": 2}),
    "transformer_lm_tiny": ({}, ENCODER),
    "transformer_tiny": (
        {"encoder_layers": 2, "decoder_layers": 2},
        STACKS | {"attention_dropout": 3 * 2},
    ),
    "lightconv_tiny": (LIGHT, STACKS | {"kernel_dropout": 4, "attention_dropout": 2}),
    "dynamicconv_tiny": (LIGHT, STACKS | {"kernel_dropout": 4, "attention_dropout": 2}),
}


def run(model):
    states = model(Inputs(TOKENS))
    if isinstance(model, EncoderDecoder):
        model.decode(TOKENS, states)


@pytest.mark.parametrize(("name", "rate"), [(name, r) for name in MASKS for r in MASKS[name][1]])
def test_dropout_rate_draws_the_expected_masks_in_training_only(name, rate, monkeypatch):
    masks, fill = [], dropout.fill_random_blocks
    monkeypatch.setattr(
        dropout, "fill_random_blocks", lambda words: masks.append(words) or fill(words)
    )
    shape, expected = MASKS[name]
    rates = dict.fromkeys(expected, 0.0) | {rate: 0.5}
    model = build_model(name, vocabulary_size=9, **shape, **rates).train()
    run(model)
    assert len(masks) == expected[rate]
    run(model.eval())
    assert len(masks) == expected[rate]
