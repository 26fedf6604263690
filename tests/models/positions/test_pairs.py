from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.load import compose
from toolkit.models.bert import BertConfig
from toolkit.models.composite_bert import CompositeBertConfig
from toolkit.models.modernbert import ModernBertConfig
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


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (BertConfig, {"shaw_values": True}, r"shaw_values requires shaw in arch\.positions, which"),
        (BertConfig, {"radius": 4}, "radius requires fixed, shaw or composite in .* are learned"),
        (BertConfig, {"rope_base": 5.0}, "rope_base requires rope in"),
        (BertConfig, {"max_distance": 5}, "max_distance requires deberta in"),
        (BertConfig, {"global_every": 2}, "global_every requires arch.attention_window"),
        (CompositeBertConfig, {"positions": ["rope"], "fixed": False}, "fixed requires composite"),
        (CompositeBertConfig, {"positions": ["rope"], "radius": 4}, "radius requires fixed, shaw"),
        (TransformerLMConfig, {"radius": 4}, "radius requires arch.relative shaw or composite, bu"),
    ],
)
def test_options_of_absent_terms_are_rejected(config, options, message):
    with pytest.raises(ToolkitError, match=message):
        config(**options)


def test_options_of_present_terms_are_accepted():
    BertConfig(positions=["rope", "shaw"], radius=4, rope_base=5.0, shaw_values=True)
    BertConfig(positions=["rope"], attention_window=4, global_every=2, local_rope_base=3.0)
    CompositeBertConfig(positions=["rope"], depthwise=True, radius=4)
    ModernBertConfig(positions=["learned"], attention_window=None)
    TransformerLMConfig(relative="shaw", radius=4)


def test_names_of_terms_point_to_the_option_of_the_architecture():
    with pytest.raises(ToolkitError, match=r"'rope'\. Relative terms are values of arch\.rel"):
        TransformerLMConfig(positions="rope")
    with pytest.raises(ToolkitError, match=r"arch\.relative\. Write arch\.positions instead"):
        compose({"arch": "bert_tiny", "task": "mlm", "arch.relative": "rope"})


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
