"""Batches on their way to a device."""

from __future__ import annotations

import torch

from toolkit.models.interface import Inputs
from toolkit.tasks.examples import TargetBatch, to_device

META = torch.device("meta")
PADDING = torch.arange(6) >= torch.tensor([4, 6])[:, None]


def batch(padding: torch.Tensor | None) -> TargetBatch:
    zeros = torch.zeros(2, dtype=torch.long)
    inputs = Inputs(torch.zeros(2, 6, dtype=torch.long), padding=padding)
    return TargetBatch(inputs, zeros, zeros, {"mlm": 2.0}, 2, 10)


def test_tensors_move_and_numbers_stay():
    moved = to_device(batch(PADDING), META)
    assert moved.inputs.tokens.device == moved.inputs.padding.device == moved.targets.device == META
    assert moved.inputs.packing is None
    assert moved[3:6] == ({"mlm": 2.0}, 2, 10)


def test_inputs_with_padding_are_packed_if_asked_for():
    packing = to_device(batch(PADDING), META, packs=True).inputs.packing
    assert packing.starts.device == packing.sources.device == packing.rows.device == META
    assert packing.tokens == 10
