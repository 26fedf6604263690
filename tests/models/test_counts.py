"""Published numbers of parameters, to the last digit."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.models.interface import Sizes
from toolkit.tasks.task import EncoderFactory

NONE = {"fixed": False, "dynamic": False}
COMPOSITE: dict[str, object] = {}
ROWS = {
    "none": (NONE, 13_414_324),
    "absolute": (NONE | {"absolute_positions": True}, 13_430_708),
    "fixed": ({"dynamic": False}, 13_415_140),
    "dynamic": ({"fixed": False}, 13_427_380),
    "composite": (COMPOSITE, 13_428_196),
    "composite + key": ({"key_dynamic": True}, 13_441_252),
    "depthwise": (NONE | {"depthwise": True}, 13_469_620),
    "composite + depthwise": ({"depthwise": True}, 13_483_492),
    "conv QK": (NONE | {"convolve": ["query", "key"]}, 13_524_916),
    "conv V": (NONE | {"convolve": ["value"]}, 13_469_620),
    "conv QKV": (NONE | {"convolve": ["query", "key", "value"]}, 13_580_212),
    "composite + QK": ({"convolve": ["query", "key"]}, 13_538_788),
    "composite + V": ({"convolve": ["value"]}, 13_483_492),
    "composite + QKV": ({"convolve": ["query", "key", "value"]}, 13_594_084),
}
BASE = {
    "absolute": (NONE | {"absolute_positions": True}, 108_821_044),
    "fixed": ({"dynamic": False}, 108_725_188),
    "dynamic": ({"fixed": False}, 108_735_796),
    "composite": (COMPOSITE, 108_738_244),
}


def count(name: str, changes: dict[str, object], sizes: dict[str, int]) -> int:
    """Parameters of the model without heads, counted on the meta device."""
    entry = ARCHITECTURES[name]
    with torch.device("meta"):
        model = entry.factory(dataclasses.replace(entry.config, **changes), Sizes(**sizes))
    return sum(p.numel() for p in model.parameters())


def parameters(name: str, changes: dict[str, object]) -> int:
    """Parameters of the encoder with its MLM head, counted on the meta device."""
    entry, task, sizes = ARCHITECTURES[name], TASKS["mlm"], Sizes(tokens=30_004)
    with torch.device("meta"):
        encoder = entry.factory(dataclasses.replace(entry.config, **changes), sizes)
        head = task.factory(task.config, encoder, EncoderFactory(None, sizes))
    return sum(p.numel() for part in (encoder, head) for p in part.parameters())


@pytest.mark.parametrize("row", ROWS)
def test_composite_bert_small_has_the_published_number_of_parameters(row):
    changes, published = ROWS[row]
    assert parameters("composite_bert_small", changes) == published


@pytest.mark.parametrize("row", BASE)
def test_composite_bert_has_the_published_number_of_parameters(row):
    changes, published = BASE[row]
    assert parameters("composite_bert", changes) == published


@pytest.mark.parametrize(
    ("name", "published"),
    [("bert_small", 13_430_708), ("bert", 108_821_044), ("convbert_small_chang", 13_094_540)],
)
def test_encoders_with_a_head_have_the_published_number_of_parameters(name, published):
    assert parameters(name, {}) == published


ENCODERS = [  # architecture, sizes, number
    ("convbert_small", {"tokens": 30_522}, 13_143_768),  # of Hugging Face's
    ("convbert_medium_small", {"tokens": 30_522}, 17_475_888),
    ("convbert", {"tokens": 30_522}, 105_680_520),
    # joined symbols of WMT English-German: Ott et al. 2018, and Wu et al. 2019, table 1
    ("transformer_big", {"tokens": 32_768}, 209_911_808),
    ("dynamicconv_big", {"tokens": 32_768}, 213_237_760),
    # 16 (1024 - 1) (149 + 118) numbers fewer in its kernels
    ("lightconv_big", {"tokens": 32_768}, 213_237_760 - 4_370_256),
    # as fairseq logs it for IWSLT 2014 German-English
    ("transformer_iwslt", {"tokens": 8_848, "targets": 6_632}, 39_469_056),
    ("transformer_lm_gpt", {"tokens": 40_478}, 116_534_784),
    ("transformer_lm_gpt2", {"tokens": 50_257}, 124_439_808),
    ("taco", {"tokens": 30_522}, 100_091_220),
]


@pytest.mark.parametrize(("name", "sizes", "published"), ENCODERS)
def test_encoder_has_the_published_number_of_parameters(name, sizes, published):
    assert count(name, {}, sizes) == published


TACO = {  # widths, heads, relative width -> millions of parameters (tables 3, 5 and 6)
    (648, 120, 6, 6, 120): "80.4",
    (576, 192, 6, 6, 192): "71.1",
    (504, 264, 6, 6, 264): "64.3",
    (648, 120, 12, 6, 120): "87.5",
    (648, 120, 12, 12, 120): "88.6",
}


@pytest.mark.parametrize("shape", TACO)
def test_taco_has_the_published_number_of_parameters(shape):
    names = ("word_width", "position_width", "word_heads", "position_heads", "relative_width")
    found = count("taco", dict(zip(names, shape, strict=True)), {"tokens": 30_522})
    assert f"{found / 1e6:.1f}" == TACO[shape]
