"""Properties of all generative models: incremental decoding, causality, padding, shared tables."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Inputs, Sizes
from toolkit.nn.attention.kernels import NormalizedKernel
from toolkit.nn.ops.linear import supports_packing

SMALL = {"width": 16, "heads": 4, "feed_forward_width": 24}
RELATIVE = [{"positions": name} for name in ("rope", "alibi", "t5", "shaw", "composite")]
TRANSFORMERS = [
    {},
    {"pre_norm": True},
    {"positions": "learned", "max_positions": 40, "activation": "gelu"},
    *RELATIVE,
    {"positions": "sinusoidal,composite", "pre_norm": True},
]
MODELS = [
    *(("transformer_tiny", changes) for changes in TRANSFORMERS),
    *(("transformer_lm_tiny", changes) for changes in TRANSFORMERS[:4]),
    ("transformer_tiny", {"share_embeddings": "none"}),
    *(("lightconv_tiny", changes) for changes in ({}, {"pre_norm": True}, {"gated": False})),
    *(("dynamicconv_tiny", changes) for changes in ({}, {"pre_norm": True})),
]
NAMES = [f"{name} {changes}" for name, changes in MODELS]
FEW = [
    ("transformer_tiny", {}),
    ("transformer_tiny", {"positions": "rope"}),
    ("transformer_tiny", {"positions": "sinusoidal,composite", "pre_norm": True}),
    ("transformer_lm_tiny", {"positions": "learned", "max_positions": 40, "activation": "gelu"}),
    ("lightconv_tiny", {}),
    ("dynamicconv_tiny", {"pre_norm": True}),
]
"""Each kind of cache and of layer once."""
ENCODER_DECODERS = [(name, changes) for name, changes in MODELS if "_lm" not in name]


def build(name, changes=None, targets=0):
    torch.manual_seed(0)
    entry = ARCHITECTURES[name]
    config = dataclasses.replace(entry.config, **SMALL, **(changes or {}))
    model = entry.factory(config, Sizes(tokens=23, targets=targets)).eval()
    for module in model.modules():  # parameters that are 0 at first would hide mistakes
        for parameter in module.parameters(recurse=False):
            if not isinstance(module, nn.Linear | nn.Embedding | NormalizedKernel):
                nn.init.normal_(parameter)
    return model


def encode(model, rows=3):
    """Sources of several lengths, encoded, and their padding."""
    if model.decoder_only:
        return None, None
    tokens, lengths = torch.randint(23, (3, 9)), torch.tensor([9, 4, 6])
    padding = torch.arange(9) >= lengths[:, None]
    encoded = model(Inputs(tokens, padding=padding))
    each = rows // 3
    return (
        encoded._replace(states=encoded.states.repeat_interleave(each, 0)),
        padding.repeat_interleave(each, 0),
    )


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def decode_steps(model, previous, encoded, padding, ends):
    """States of all positions, decoded up to each end in turn; the source is passed once."""
    cache, steps, start = model.cache(len(previous)), [], 0
    for end in ends:
        source = (encoded, padding) if start == 0 else (None, None)
        steps.append(model.decode(previous[:, start:end], *source, cache))
        start = end
    assert cache.length == end
    return torch.cat(steps, 1)


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_incremental_decoding_equals_full_decoding(name, changes):
    model, previous = build(name, changes), torch.randint(23, (3, 37))
    ends = (1, 2, 3, 8, 30, 31, 32, 33, 37)  # kernels have up to 31 taps
    with torch.no_grad():
        source = encode(model)
        close(decode_steps(model, previous, *source, ends), model.decode(previous, *source))


@pytest.mark.parametrize(("name", "changes"), FEW, ids=str)
def test_cache_reorders_rows_of_shared_sources(name, changes):
    model, previous = build(name, changes), torch.randint(23, (6, 5))
    with torch.no_grad():
        encoded, padding = encode(model)
        cache = model.cache(6)
        model.decode(previous[:, :3], encoded, padding, cache)
        rows = torch.tensor([1, 1, 5, 4])  # the second source has ended
        cache.reorder(rows)
        more = torch.randint(23, (4, 2))
        states = model.decode(more, None, None, cache)
        whole = torch.cat([previous[rows, :3], more], 1)
        if encoded is not None:
            sources = torch.tensor([0, 0, 2, 2])
            encoded, padding = encoded._replace(states=encoded.states[sources]), padding[sources]
        close(states, model.decode(whole, encoded, padding)[:, 3:])


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_decoder_states_do_not_depend_on_later_tokens(name, changes):
    model, previous = build(name, changes), torch.randint(23, (3, 11))
    source = encode(model)
    later = torch.cat([previous[:, :6], torch.randint(23, (3, 5))], 1)
    changed, states = model.decode(later, *source), model.decode(previous, *source)
    close(changed[:, :6], states[:, :6])
    assert not torch.allclose(changed[:, 6:], states[:, 6:])


@pytest.mark.parametrize(("name", "changes"), ENCODER_DECODERS, ids=str)
def test_decoder_states_do_not_depend_on_padding_of_the_source(name, changes):
    model, previous = build(name, changes), torch.randint(23, (3, 7))
    tokens, padding = torch.randint(23, (3, 9)), torch.arange(9)[None].expand(3, -1) >= 4
    alone = model.decode(previous, model(Inputs(tokens[:, :4])))
    close(model.decode(previous, model(Inputs(tokens, padding=padding)), padding), alone)


@pytest.mark.parametrize(("name", "changes"), FEW, ids=str)
def test_selected_decoder_states_equal_those_of_all_positions(name, changes):
    model, previous = build(name, changes), torch.randint(23, (3, 7))
    source, selected = encode(model), torch.tensor([0, 6, 8, 20])
    expected = model.decode(previous, *source).flatten(0, 1)[selected]
    close(model.decode(previous, *source, selected=selected)[0], expected)
    cache = model.cache(3)
    close(model.decode(previous, *source, cache, selected)[0], expected)


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_every_parameter_has_a_gradient(name, changes):
    model, previous = build(name, changes).train(), torch.randint(23, (3, 20))
    encoded = None if model.decoder_only else model(Inputs(torch.randint(23, (3, 9))))
    model.scores(model.decode(previous, encoded).flatten(0, 1)).logsumexp(-1).sum().backward()
    unused = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not unused


@pytest.mark.parametrize(("shared", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_shared_embeddings_are_stored_once(shared, tables):
    model = build("transformer_tiny", {"share_embeddings": shared})
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    saved = [value for value in model.state_dict().values() if value.shape == (23, 16)]
    assert len(embeddings) == tables == len(saved)


def test_alignment_sums_to_1_over_the_source():
    model, previous = build("transformer_tiny"), torch.randint(23, (3, 7))
    encoded, padding = encode(model)
    weights = model.alignment(previous, encoded, padding)
    assert weights.shape == (3, 7, 9) and not weights[padding[:, None].expand(-1, 7, -1)].any()
    close(weights.sum(-1), torch.ones(3, 7))


def test_shared_embeddings_are_rejected_for_separate_dictionaries():
    message = r"share_embeddings must be decoder or none .* but is 'all' with 23 and 31 tokens"
    with pytest.raises(ToolkitError, match=message):
        build("transformer_tiny", {"share_embeddings": "all"}, targets=31)


def test_incremental_decoding_rejects_more_positions_than_the_table():
    model = build("transformer_lm_tiny", {"positions": "learned", "max_positions": 4})
    cache = model.cache(1)
    model.decode(torch.randint(23, (1, 4)), cache=cache)
    with pytest.raises(ToolkitError, match=r"at most arch.max_positions = 4 .* but one has 5"):
        model.decode(torch.randint(23, (1, 1)), cache=cache)


@pytest.mark.parametrize(("name", "changes"), FEW, ids=str)
def test_packed_model_gives_equal_scores(name, changes):
    model, previous = build(name, changes), torch.randint(23, (3, 9))
    with torch.no_grad():
        source = encode(model)
        expected = model.scores(model.decode(previous, *source).flatten(0, 1))
        model.pack()
        states = decode_steps(model, previous, *source, range(1, 10))
        close(model.scores(states.flatten(0, 1)), expected)
    assert (model.packed_scores is not None) == supports_packing(model.token_embedding.weight)
