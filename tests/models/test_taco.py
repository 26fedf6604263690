"""TACO: published sizes, hidden positions and rejected configs."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Inputs, Sizes
from toolkit.models.taco import TacoConfig

PUBLISHED = {  # widths, heads, relative width -> millions of parameters (tables 3, 5 and 6)
    (648, 120, 6, 6, 120): "80.4",
    (576, 192, 6, 6, 192): "71.1",
    (504, 264, 6, 6, 264): "64.3",
    (648, 120, 12, 6, 120): "87.5",
    (648, 120, 12, 12, 120): "88.6",
    (648, 120, 12, 6, 768): "100.1",
}


def parameters(**changes):
    entry = ARCHITECTURES["taco"]
    with torch.device("meta"):
        encoder = entry.factory(dataclasses.replace(entry.config, **changes), Sizes(tokens=30_522))
    return sum(p.numel() for p in encoder.parameters())


@pytest.mark.parametrize("shape", PUBLISHED)
def test_taco_has_the_published_number_of_parameters(shape):
    names = ("word_width", "position_width", "word_heads", "position_heads", "relative_width")
    millions = parameters(**dict(zip(names, shape, strict=True))) / 1e6
    assert f"{millions:.1f}" == PUBLISHED[shape]


def test_taco_without_convolution_has_the_published_number_of_parameters():
    assert f"{parameters(attention_convolution=False) / 1e6:.1f}" == "100.1"


def test_taco_parameters_equal_the_sum_of_their_parts():
    d, p, h, g, k, relative = 648, 120, 12, 6, 64, 768
    tables = 30_522 * d + 513 * p + 1_023 * relative + 2 * (d + p)  # and their norms
    queries_and_keys = 2 * ((d + 1) * h * k + (p + 1) * g * k)
    values_and_outputs = 2 * ((d + 1) * d + (p + 1) * p)
    offsets = 2 * relative * h * k
    feed_forward = sum(w * 4 * w + 4 * w + 4 * w * w + w + 4 * w for w in (d, p))  # two norms each
    first, others = 3 * h + g, 3 * h + g + h + g
    mixing = 12 * 2 * (h + g) + (first + 11 * others) * (h + g)  # biases and slopes, then weights
    layers = 12 * (queries_and_keys + values_and_outputs + offsets + feed_forward) + mixing
    assert tables + layers == parameters() == 100_091_220


def tiny(**changes):
    torch.manual_seed(1)
    changes = {"dropout": 0.0, "attention_dropout": 0.0} | changes
    model = build_model("taco_tiny", vocabulary_size=50, **changes).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    return model


def swapped_states():
    """States before and after swapping the words at two hidden positions, in the same order."""
    model, tokens = tiny(), torch.arange(9)[None]
    ids, order = tokens.clone(), torch.tensor([0, 1, 6, 3, 4, 5, 2, 7, 8])
    ids[:, [2, 6]] = -1
    one = model(Inputs(tokens, positions=ids)).states
    other = model(Inputs(tokens[:, order], positions=ids)).states
    return one, other[:, order]


def test_swapped_words_at_hidden_positions_have_swapped_states():
    torch.testing.assert_close(*swapped_states(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"word_width": 100, "word_heads": 12}, r"word_heads, but 100 = 8 x 12 \+ 4"),
    ],
)
def test_taco_rejects_impossible_configs(values, message):
    with pytest.raises(ToolkitError, match=message):
        TacoConfig(**values)
