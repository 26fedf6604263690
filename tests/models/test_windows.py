"""Encoders with sliding-window layers."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Inputs, Sizes


def build(arch: str = "bert_tiny", **options: object) -> Encoder:
    torch.manual_seed(0)
    entry = ARCHITECTURES[arch]
    shape = {"layers": 2, "width": 8, "heads": 2, "embedding_width": 8, "global_every": 2}
    config = dataclasses.replace(entry.config, **{**shape, "attention_window": 4, **options})
    model = entry.factory(config, Sizes(tokens=30)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize("arch", ["bert_tiny", "composite_bert_tiny", "convbert_tiny"])
def test_layers_between_global_ones_see_the_window_only(arch):
    options = {"conv_type": "none"} if arch == "convbert_tiny" else {}
    model = build(arch, layers=5, global_every=3, max_positions=20, **options)
    assert [layer.attention.map.window_radius for layer in model.layers] == [None, 2, 2, None, 2]
    tokens = torch.randint(30, (1, 12))
    x, sequence, _ = model.embed(Inputs(tokens=tokens))
    changed = x.clone()
    changed[:, 6] += 1
    for layer, local in zip(model.layers, [False, True, True, False, True], strict=True):
        differs = (layer(x, sequence) != layer(changed, sequence)).any(-1)[0]
        expected = [abs(i - 6) <= 2 or not local for i in range(12)]
        assert differs.tolist() == expected


def test_rotary_base_of_local_layers_differs_from_that_of_global_ones():
    model = build(positions=["rope"], rope_base=500.0, local_rope_base=20.0)
    bases = [layer.attention.project.changes[0].base for layer in model.layers]
    assert bases == [500.0, 20.0]
