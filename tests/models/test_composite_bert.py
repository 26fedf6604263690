"""The parts that a config composes, and the configs that are rejected."""

import pytest

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.composite_bert import CompositeBertConfig
from toolkit.models.interface import Sizes

SHAPE = {"layers": 1, "width": 8, "heads": 2, "radius": 2}


def config(**changes):
    return CompositeBertConfig(**SHAPE, **changes)


@pytest.mark.parametrize(
    ("changes", "takes"),
    [
        ({}, True),
        ({"fixed": False, "dynamic": False}, False),
        ({"fixed": False, "dynamic": False, "absolute_positions": True}, True),
        ({"depthwise": True}, False),
        ({"convolve": ["key"]}, False),
    ],
)
def test_composite_bert_takes_positions_if_only_kernels_and_tables_read_them(changes, takes):
    model = ARCHITECTURES["composite_bert"].factory(config(**changes), Sizes(tokens=9))
    assert model.takes_positions is takes
