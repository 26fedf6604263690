from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.models.interface import Inputs, Sizes


def test_data_has_nothing_but_tokens_unless_it_says_so():
    sizes = dataclasses.asdict(Sizes(tokens=9))
    assert sizes.pop("tokens") == 9 and not any(sizes.values())


def test_sizes_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Sizes(tokens=9).labels = 2


def test_tokens_alone_stand_in_order_in_one_segment_without_padding():
    tokens = torch.zeros(2, 3, dtype=torch.long)
    assert Inputs(tokens) == (tokens, *[None] * (len(Inputs._fields) - 1))
