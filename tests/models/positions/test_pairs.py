from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.models.bert import BertConfig
from toolkit.models.positions.pairs import REASONS
from toolkit.models.transformer_lm import TransformerLMConfig


@pytest.mark.parametrize("pair", REASONS, ids=lambda pair: "-".join(sorted(pair)))
def test_a_pair_that_cannot_be_combined_is_rejected_with_the_reason(pair):
    with pytest.raises(ToolkitError) as error:
        BertConfig(positions=sorted(pair))
    assert REASONS[pair] in str(error.value)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([], "must name at least one term"),
        (["rope", "rope"], "must not repeat a term, but are rope, rope"),
        (["none", "rope"], "must not contain none with other terms"),
    ],
)
def test_names_that_are_no_set_of_terms_are_rejected(positions, message):
    with pytest.raises(ToolkitError, match=message):
        BertConfig(positions=positions)


def test_values_of_shaw_require_the_term():
    with pytest.raises(ToolkitError, match=r"requires shaw in arch\.positions, which are learned"):
        BertConfig(shaw_values=True)


def test_rotations_require_heads_of_even_width():
    with pytest.raises(ToolkitError, match=r"must be even with rope.* is 5"):
        BertConfig(width=10, heads=2, positions=["rope"])


def test_rotations_of_decoders_require_heads_of_even_width():
    with pytest.raises(ToolkitError, match=r"must be even with rope.* is 5"):
        TransformerLMConfig(width=10, heads=2, relative="rope")


@pytest.mark.parametrize("max_distance", [4, 9])
def test_logarithmic_buckets_must_end_after_they_begin(max_distance):
    options = {"positions": ["deberta"], "position_buckets": 16, "max_distance": max_distance}
    with pytest.raises(ToolkitError, match=r"must be above .* but is \d with 16 buckets"):
        BertConfig(**options)
    assert BertConfig(**options | {"max_distance": 10})
