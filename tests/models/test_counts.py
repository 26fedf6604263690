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


@pytest.mark.parametrize(("name", "published"), [("bert_small", 13_430_708), ("bert", 108_821_044)])
def test_bert_has_the_parameters_of_the_row_with_absolute_positions(name, published):
    assert parameters(name, {}) == published
