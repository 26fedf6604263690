from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.models.bert import BertConfig, ModernBertConfig
from toolkit.models.composite_bert import CompositeBertConfig
from toolkit.models.transformer import TransformerLMConfig

PAIRS = {
    "learned sinusoidal": "both are vectors added to the token embeddings",
    "fixed composite": "composite contains it",
    "shaw composite": "composite contains it",
    **{f"{other} deberta": "this would be a fourth" for other in ("shaw", "xl", "composite")},
    "rope xl": "no paper says which comes first",
}


@pytest.mark.parametrize("config", [BertConfig, TransformerLMConfig])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_that_cannot_be_combined_is_rejected_with_the_reason(pair, config):
    names = pair.split()
    with pytest.raises(ToolkitError, match=rf"both {' and '.join(names)}: .*{PAIRS[pair]}"):
        config(positions=names[::-1])


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
        (
            BertConfig,
            {"shaw_values": True},
            r"shaw_values requires shaw in .* now learned",
        ),
        (BertConfig, {"radius": 4}, "radius requires fixed, shaw or composite in .* now learned"),
        (BertConfig, {"global_every": 2}, "global_every requires arch.attention_window"),
        (CompositeBertConfig, {"positions": ["rope"], "fixed": False}, "fixed requires composite"),
        (TransformerLMConfig, {"rope_base": 4.0}, "rope_base requires rope in"),
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
    TransformerLMConfig(positions=["shaw"], radius=4)


def test_unknown_terms_are_rejected_with_the_known_ones():
    with pytest.raises(ToolkitError, match=r"unknown position term 'roap'. Did you mean 'rope'\?"):
        BertConfig(positions=["roap"])


@pytest.mark.parametrize("name", ["xl", "deberta"])
def test_terms_of_both_sides_are_rejected_in_decoders(name):
    with pytest.raises(ToolkitError, match=rf"must not contain {name} in models with a decoder"):
        TransformerLMConfig(positions=[name])


def test_rotations_require_heads_of_even_width():
    with pytest.raises(ToolkitError, match=r"must be a multiple of 2 with rope.* is 5"):
        BertConfig(width=10, heads=2, positions=["rope"])
