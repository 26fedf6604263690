"""The parts that a config composes, and the configs that are rejected."""

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.composite_bert import CompositeBertConfig, projections, values
from toolkit.models.interface import Sizes
from toolkit.models.positions import build_scores
from toolkit.nn.attention import (
    ConvolvedProjections,
    DepthwiseValues,
    FixedKernel,
    LinearProjections,
    PlainValues,
    QueryKernel,
    RelativeToKey,
)

SHAPE = {"layers": 1, "width": 8, "heads": 2, "radius": 2}


def config(**changes):
    return CompositeBertConfig(**SHAPE, **changes)


def test_composite_attention_adds_a_fixed_and_a_query_kernel_in_one_term():
    (term,) = build_scores(config()).terms
    assert [type(kernel) for kernel in term.kernels] == [FixedKernel, QueryKernel]


def test_composite_bert_without_kernels_has_no_terms():
    assert len(build_scores(config(fixed=False, dynamic=False)).terms) == 0


def test_key_dynamic_adds_a_separate_term():
    assert type(build_scores(config(key_dynamic=True)).terms[1]) is RelativeToKey


def test_convolve_and_depthwise_choose_projections_and_values():
    assert type(projections(config())) is LinearProjections
    assert type(projections(config(convolve=["value"]))) is ConvolvedProjections
    assert type(values(config())) is PlainValues
    assert type(values(config(depthwise=True))) is DepthwiseValues


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
        ({"radius": 0}, "arch.radius must be at least 1, but is 0"),
        ({"convolve": ["query", "keys"]}, "must be one of query, key, value, but is 'keys'"),
        ({"convolve": ["key"], "heads": 1}, "arch.heads must be even with arch.convolve"),
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
