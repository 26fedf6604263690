"""Every position term, alone and combined, against loops over pairs of tokens in float64."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.helpers.position_loops import (
    Loops,
    alibi_slopes,
    deberta_row,
    linear,
    t5_bucket,
)
from tests.helpers.position_models import build_encoder, make_batch
from toolkit import build_model
from toolkit.common.registry import POSITIONS
from toolkit.nn.attention import LinearBias, Offsets, SequenceContext
from toolkit.nn.attention.disentangled import clipped_buckets
from toolkit.nn.attention.offset_terms import bucket_indices

NAMES = [name for name in POSITIONS.builtins if name != "none"]
ALONE = {name: {"positions": [name]} for name in ["none", *NAMES]}
MANY = {
    "all of rope": {"positions": ["learned", "rope", "alibi", "t5", "shaw", "fixed"]},
    "all of xl": {"positions": ["sinusoidal", "xl", "alibi", "t5", "composite"]},
    "all of deberta": {"positions": ["learned", "deberta", "rope", "alibi", "t5", "fixed"]},
}
VALUES = {
    "shaw + values": {"positions": ["shaw"], "shaw_values": True},
    "rope, shaw + values": {"positions": ["rope", "shaw"], "shaw_values": True},
}
KEYS = {
    "key": {"fixed": False, "dynamic": False, "key_dynamic": True},
    "rope, composite + key": {"positions": ["composite", "rope"], "key_dynamic": True},
    "absolute, xl": {"positions": ["xl"], "absolute_positions": True},
}
WINDOW = {"layers": 2, "global_every": 2, "attention_window": 4}
EVERY = ALONE | VALUES | KEYS | MANY
SINGLE = ALONE | VALUES | KEYS
DECODER = SimpleNamespace(radius=2, rope_base=10_000)


def loops_of(c) -> Loops:
    """The loops of an encoder's config."""
    names = {*c.positions} - {"none"}
    if "key_dynamic" in vars(c):
        parts = {"fixed": c.fixed, "shaw": c.dynamic, "key": c.key_dynamic}
        if "composite" in names:
            names = names - {"composite"} | {name for name, chosen in parts.items() if chosen}
        names |= {"learned"} if c.absolute_positions else set()
    return Loops(c, names)


def states_by_loops(loops, model, inputs):
    """States of all tokens that are not padding."""
    states = []
    for row, padding in enumerate(inputs.padding):
        tokens = inputs.tokens[row][~padding].tolist()
        states.append(loops.encode(model, tokens, inputs.positions[row][~padding].tolist()))
    return torch.cat(states)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_states_and_gradients_equal_loops_over_position_ids(name):
    model, config = build_encoder(**EVERY[name])
    inputs = make_batch() if name in SINGLE else make_batch("permuted", "hidden")
    got = model(inputs).states[~inputs.padding]
    want = states_by_loops(loops_of(config), model, inputs)
    close(got, want)
    weight, weights = torch.randn_like(got), [*model.parameters()]
    gradients = (torch.autograd.grad((y * weight).sum(), weights) for y in (got, want))
    for one, other in zip(*gradients, strict=True):
        close(one, other)
    with torch.no_grad():
        close(model(inputs).states[~inputs.padding], want.detach())


@pytest.mark.parametrize("name", SINGLE)
def test_states_without_position_ids_equal_loops_over_indices(name):
    model, config = build_encoder(**SINGLE[name], layers=2)
    ordered = make_batch("in order", "in order")
    inputs = ordered._replace(positions=None)
    want = states_by_loops(loops_of(config), model, ordered).detach()
    close(model(inputs).states[~inputs.padding], want)
    with torch.no_grad():
        close(model(inputs).states[~inputs.padding], want)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("name", ["all of rope", "all of xl", "all of deberta", *SINGLE])
def test_states_and_gradients_with_a_sliding_window_equal_loops(name, explicit):
    rotary = "rope" in EVERY[name].get("positions", ())
    local = {"local_rope_base": 3.0} if rotary else {}
    model, config = build_encoder(**EVERY[name], **WINDOW, **local)
    given = make_batch("permuted", "apart") if explicit else make_batch("in order", "in order")
    inputs = given if explicit else given._replace(positions=None)
    got = model(inputs).states[~inputs.padding]
    want = states_by_loops(loops_of(config), model, given)
    close(got, want)
    gradients = (torch.autograd.grad(y.sin().sum(), [*model.parameters()]) for y in (got, want))
    for one, other in zip(*gradients, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", SINGLE)
def test_attention_weights_equal_loops(name):
    """Those that are shown, which training does not materialize."""
    model, config = build_encoder(**SINGLE[name])
    inputs, attention = make_batch("permuted", "hidden"), model.layers[0].attention
    x, sequence, _ = model.embed(inputs)
    got = attention.map(attention.project(x, sequence))
    others = {"OffsetEmbedding": model.offset_embedding}
    for row, padding in enumerate(inputs.padding):
        ids = inputs.positions[row][~padding].tolist()
        _, want = loops_of(config).attend(attention, x[row][~padding], ids, others)
        close(got[row, :, : len(ids), : len(ids)].transpose(0, 1), want)
        assert not got[row][..., padding].any()


@pytest.mark.parametrize("name", ALONE)
def test_heads_of_convbert_that_attend_equal_loops_and_the_others_read_no_position(name):
    options = {"width": 16, "heads": 4, "kernel_size": 3, "positions": [name]}
    model, config = build_encoder("convbert_tiny", **options)
    inputs, attention = make_batch("permuted", "hidden"), model.layers[0].attention
    x, sequence, _ = model.embed(inputs)
    p, others = attention.project(x, sequence), {"OffsetEmbedding": model.offset_embedding}
    attended, convolved = attention.values(attention.map, p).chunk(2, 1)
    for row, padding in enumerate(inputs.padding):
        ids = inputs.positions[row][~padding].tolist()
        want, _ = loops_of(config).attend(attention, x[row][~padding], ids, others)
        close(attended[row].transpose(0, 1).flatten(1)[: len(ids)], want)
    plain, _ = build_encoder("convbert_tiny", **options | {"positions": ["none"]})
    plain.load_state_dict(model.state_dict(), strict=False)
    plain = plain.layers[0].attention
    context = SequenceContext(Offsets(None, 6, x.device), inputs.padding)
    assert torch.equal(plain.values(plain.map, plain.project(x, context)).chunk(2, 1)[1], convolved)


@pytest.mark.parametrize("relative", ["none", "rope", "alibi", "t5", "shaw", "composite"])
def test_terms_of_decoders_equal_loops_over_keys_on_the_left(relative):
    shape = {"layers": 1, "width": 12, "heads": 3, "feed_forward_width": 8}
    shape |= {"radius": 2} if relative in ("shaw", "composite") else {}
    model = build_model("transformer_lm_tiny", vocabulary_size=20, positions=[relative], **shape)
    attention = model.double().eval().decoder.layers[0].self_attention
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    loops = Loops(DECODER, {relative} - {"none"}, left_only=True)
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    sequence = SequenceContext(Offsets(None, 6, x.device), causal=True)
    got = attention(x, sequence)
    cache, steps = attention.map.init_cache(), []
    for i in range(6):
        new = SequenceContext(Offsets(None, i + 1, x.device, query_start=i), causal=True)
        steps.append(attention(x[:, i : i + 1], new, cache))
    for row in range(2):
        context, _ = loops.attend(attention, x[row], list(range(6)), {})
        close(got[row], linear(context, attention.output))
        close(torch.cat(steps, 1)[row], got[row])


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20])
def test_linear_slopes_equal_those_of_the_authors(heads):
    slopes = LinearBias(heads).slopes.flatten().tolist()
    assert slopes == pytest.approx(alibi_slopes(heads), rel=1e-6)


@pytest.mark.parametrize("left_only", [False, True])
def test_bucket_indices_equal_comparisons_of_integers(left_only):
    offsets = torch.arange(-300, 301)
    want = [t5_bucket(offset, left_only=left_only) for offset in offsets.tolist()]
    assert bucket_indices(offsets, 32, 128, left_only=left_only).tolist() == want


@pytest.mark.parametrize(("buckets", "max_distance"), [(256, 512), (4, 10), (32, 128), (2, 5)])
def test_logarithmic_buckets_equal_comparisons_of_integers(buckets, max_distance):
    offsets = torch.arange(-700, 701)
    found = clipped_buckets(offsets, buckets, max_distance)
    want = [deberta_row(offset, buckets, max_distance) for offset in offsets.tolist()]
    assert (found + buckets).tolist() == want
