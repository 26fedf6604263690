"""What every model that writes must do: a step with a cache is a place of the whole sentence."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Inputs, Sizes
from toolkit.nn.attention.kernels import NormalizedKernel
from toolkit.nn.ops.packed_linear import supports_packing

SMALL = {"width": 16, "heads": 4, "feed_forward_width": 24}
RELATIVE = [{"relative": name, "positions": "none"} for name in ("t5", "shaw", "composite")]
TRANSFORMERS = [
    {},
    {"pre_norm": True},
    {"positions": "learned", "max_positions": 40, "activation": "gelu"},
    *RELATIVE,
    {"relative": "composite", "pre_norm": True},
]
MODELS = [
    *(("transformer_tiny", changes) for changes in TRANSFORMERS),
    *(("transformer_lm_tiny", changes) for changes in TRANSFORMERS),
    ("transformer_tiny", {"share_embeddings": "none"}),
    *(("lightconv_tiny", changes) for changes in ({}, {"pre_norm": True}, {"gated": False})),
    *(("dynamicconv_tiny", changes) for changes in ({}, {"pre_norm": True})),
]
NAMES = [f"{name} {changes}" for name, changes in MODELS]
READERS = [(name, changes) for name, changes in MODELS if "_lm" not in name]


def built(name, changes=None, targets=0):
    torch.manual_seed(0)
    entry = ARCHITECTURES[name]
    config = dataclasses.replace(entry.config, **SMALL, **(changes or {}))
    model = entry.factory(config, Sizes(tokens=23, targets=targets)).eval()
    for part in model.modules():  # numbers that begin as 0 would hide mistakes
        for parameter in part.parameters(recurse=False):
            if not isinstance(part, nn.Linear | nn.Embedding | NormalizedKernel):
                nn.init.normal_(parameter)
    return model


def read(model, rows=3):
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


def close(got, want):
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def written(model, previous, encoded, padding, ends):
    """States of all places, decoded up to each of the ends in turn; the source is shown once."""
    cache, steps, begin = model.cache(len(previous)), [], 0
    for end in ends:
        shown = (encoded, padding) if begin == 0 else (None, None)
        steps.append(model.decode(previous[:, begin:end], *shown, cache))
        begin = end
    assert cache.length == end
    return torch.cat(steps, 1)


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
@pytest.mark.parametrize("ends", [range(1, 38), (5, 6, 37)], ids=["one by one", "in pieces"])
def test_incremental_decoding_equals_full_decoding(name, changes, ends):
    model, previous = built(name, changes), torch.randint(23, (3, 37))
    with torch.no_grad():
        source = read(model)
        close(written(model, previous, *source, ends), model.decode(previous, *source))


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_rows_of_one_source_share_it_and_go_on_from_each_other(name, changes):
    model, previous = built(name, changes), torch.randint(23, (6, 5))
    with torch.no_grad():
        encoded, padding = read(model)
        cache = model.cache(6)
        model.decode(previous[:, :3], encoded, padding, cache)
        rows = torch.tensor([1, 1, 5, 4])  # the second source has left
        cache.reorder(rows)
        more = torch.randint(23, (4, 2))
        got = model.decode(more, None, None, cache)
        whole = torch.cat([previous[rows, :3], more], 1)
        if encoded is not None:
            sources = torch.tensor([0, 0, 2, 2])
            encoded, padding = encoded._replace(states=encoded.states[sources]), padding[sources]
        close(got, model.decode(whole, encoded, padding)[:, 3:])


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_no_state_depends_on_what_is_written_later(name, changes):
    model, previous = built(name, changes), torch.randint(23, (3, 11))
    source = read(model)
    later = torch.cat([previous[:, :6], torch.randint(23, (3, 5))], 1)
    got, want = model.decode(later, *source), model.decode(previous, *source)
    close(got[:, :6], want[:, :6])
    assert not torch.allclose(got[:, 6:], want[:, 6:])


@pytest.mark.parametrize(("name", "changes"), READERS, ids=str)
def test_padding_of_the_source_changes_nothing(name, changes):
    model, previous = built(name, changes), torch.randint(23, (3, 7))
    tokens, padding = torch.randint(23, (3, 9)), torch.arange(9)[None].expand(3, -1) >= 4
    alone = model.decode(previous, model(Inputs(tokens[:, :4])))
    close(model.decode(previous, model(Inputs(tokens, padding=padding)), padding), alone)


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_states_of_chosen_places_are_those_of_the_whole(name, changes):
    model, previous = built(name, changes), torch.randint(23, (3, 7))
    source, chosen = read(model), torch.tensor([0, 6, 8, 20])
    want = model.decode(previous, *source).flatten(0, 1)[chosen]
    close(model.decode(previous, *source, selected=chosen)[0], want)
    cache = model.cache(3)
    close(model.decode(previous, *source, cache, chosen)[0], want)


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_every_number_is_learned(name, changes):
    model, previous = built(name, changes).train(), torch.randint(23, (3, 20))
    encoded = None if model.decoder_only else model(Inputs(torch.randint(23, (3, 9))))
    model.scores(model.decode(previous, encoded).flatten(0, 1)).logsumexp(-1).sum().backward()
    idle = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle


@pytest.mark.parametrize(("shared", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_shared_tables_are_there_once(shared, tables):
    model = built("transformer_tiny", {"share_embeddings": shared})
    found = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    assert (
        len(found)
        == tables
        == sum(value.shape == (23, 16) for value in model.state_dict().values())
    )


def test_a_target_vocabulary_of_its_own_has_its_own_size():
    model = built("transformer_tiny", targets=31)
    states = model.decode(torch.randint(31, (2, 4)), model(Inputs(torch.randint(23, (2, 5)))))
    assert model.scores(states.flatten(0, 1)).shape == (8, 31)


def test_alignment_is_what_the_last_layer_looks_at():
    model, previous = built("transformer_tiny"), torch.randint(23, (3, 7))
    encoded, padding = read(model)
    found = model.alignment(previous, encoded, padding)
    assert found.shape == (3, 7, 9) and not found[padding[:, None].expand(-1, 7, -1)].any()
    close(found.sum(-1), torch.ones(3, 7))


def test_tables_cannot_be_one_where_dictionaries_are_two():
    message = r"share_embeddings must be decoder or none .* but is 'all' with 23 and 31 tokens"
    with pytest.raises(ToolkitError, match=message):
        built("transformer_tiny", {"share_embeddings": "all"}, targets=31)


def test_an_unknown_way_to_share_tables_is_answered_with_those_there_are():
    with pytest.raises(ToolkitError, match=r"must be one of all, decoder, none, but is 'both'"):
        built("transformer_tiny", {"share_embeddings": "both"})


def test_more_places_than_the_table_has_are_refused_while_decoding_too():
    model = built("transformer_lm_tiny", {"positions": "learned", "max_positions": 4})
    cache = model.cache(1)
    model.decode(torch.randint(23, (1, 4)), cache=cache)
    with pytest.raises(ToolkitError, match=r"at most arch.max_positions = 4 .* but one has 5"):
        model.decode(torch.randint(23, (1, 1)), cache=cache)


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
def test_packed_for_writing_it_tells_the_same(name, changes):
    model, previous = built(name, changes), torch.randint(23, (3, 9))
    with torch.no_grad():
        source = read(model)
        want = model.scores(model.decode(previous, *source).flatten(0, 1))
        model.pack()
        states = written(model, previous, *source, range(1, 10))
        close(model.scores(states.flatten(0, 1)), want)
    assert (model.packed_scores is not None) == supports_packing(model.token_embedding.weight)
