"""Projections with learnable temperatures (Dufter et al. 2020, section 2.4)."""

from __future__ import annotations

import torch

from toolkit.nn.attention import Offsets, SequenceContext
from toolkit.nn.attention.projections import TemperedProjections

PLACES = SequenceContext(Offsets(None, 3, torch.device("cpu")))


def test_each_head_has_its_own_temperature_for_queries_keys_and_values():
    project = TemperedProjections(8, 2, temperature=True)
    x = torch.randn(1, 3, 8)
    plain = project(x, PLACES)
    with torch.no_grad():
        project.temperature.copy_(torch.tensor([[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]))
    warm = project(x, PLACES)
    for name, factors in (("q", (2.0, 3.0)), ("k", (4.0, 5.0)), ("v", (6.0, 7.0))):
        by_head = torch.tensor(factors)[None, :, None, None]
        torch.testing.assert_close(getattr(warm, name), by_head * getattr(plain, name))


def test_every_head_begins_with_the_variance_of_a_matrix_of_its_own():
    weight = TemperedProjections(364, 4, temperature=False).qkv.weight
    deviation = (2 / (364 + 91)) ** 0.5
    for head in weight.split(91):
        assert abs(head.std().item() - deviation) < 0.02 * deviation
