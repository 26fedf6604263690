"""The parts that a config composes, and the configs that are rejected."""

import pytest

from toolkit.common.errors import ToolkitError
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"convolve": ["key"], "positions": ["rope"]},
            "arch.convolve cannot be combined with rope in arch.positions, which requires linear",
        ),
        (
            {"key_dynamic": True, "positions": ["rope", "fixed"]},
            "arch.key_dynamic requires composite in arch.positions, now rope, fixed",
        ),
        (
            {"absolute_positions": True, "positions": ["sinusoidal"], "radius": 8},
            "must not contain both learned and sinusoidal: both are vectors",
        ),
    ],
)
def test_composite_bert_rejects_impossible_configs(changes, message):
    with pytest.raises(ToolkitError, match=message):
        CompositeBertConfig(**{**SHAPE, **changes})
