"""TACO against its paper's equations, written as loops over places and heads, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from toolkit import build_model
from toolkit.models.interface import Inputs

SHAPE = {
    "word_width": 12,
    "position_width": 6,
    "word_heads": 3,
    "position_heads": 2,
    "head_width": 4,
    "relative_width": 5,
    "max_positions": 6,
    "layers": 3,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
LENGTHS = (6, 4)
IDS = ((0, -1, 2, 5, -1, 3), (1, 0, -1, 3, 0, 0))
VARIANTS = {
    "as published": {},
    "without convolution": {"attention_convolution": False},
    "without maps below": {"residual_maps": False},
    "plain": {"attention_convolution": False, "residual_maps": False},
    "with token types": {"token_types": 2},
}


def encoder(**changes):
    """Every number of it random, so that nothing is zero or one by chance."""
    torch.manual_seed(0)
    model = build_model("taco_tiny", vocabulary_size=11, **{**SHAPE, **changes}).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model


def linear(layer, x):
    bias = 0 if layer.bias is None else layer.bias
    return layer.weight @ x + bias


def norm(layer, x):
    centerd = x - x.mean()
    return layer.weight * centerd / torch.sqrt((centerd**2).mean() + layer.eps) + layer.bias


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def projected(stream, x, heads):
    """Queries, keys and values of one place, a list of heads each."""
    k, d = SHAPE["head_width"], len(x)
    q, key, v = linear(stream.project.qkv, x).split([heads * k, heads * k, d])
    return q.view(heads, k), key.view(heads, k), v.view(heads, d // heads)


def row(model, here, there):
    """Index of the offset between two position ids (A.1): clipped to -k .. k, counted from 0."""
    k = SHAPE["max_positions"] - 1
    return max(-k, min(k, there - here)) + k


def scores(model, layer, words, positions, ids, below):
    """A list of maps [S][S] after the mixing, one for each head of both streams."""
    h, g = SHAPE["word_heads"], SHAPE["position_heads"]
    w = [projected(layer.words, x, h) for x in words]
    p = [projected(layer.positions, x, g) for x in positions]
    root, n, rows = math.sqrt(SHAPE["head_width"]), range(len(words)), model.offsets.weight
    of_query, of_key = (term.kernels[0] for term in layer.maps.word_terms[1:])
    joint = torch.zeros(h + g, len(words), len(words), dtype=torch.float64)
    for i in n:
        for j in n:
            there = linear(of_query.project, rows[row(model, ids[i], ids[j])]).view(h, -1)
            back = linear(of_key.project, rows[row(model, ids[j], ids[i])]).view(h, -1)
            content = [w[i][0][a] @ w[j][1][a] / root for a in range(h)]
            to_position = [w[i][0][a] @ there[a] / root for a in range(h)]
            from_position = [back[a] @ w[j][1][a] / root for a in range(h)]
            position = [p[i][0][a] @ p[j][1][a] / root for a in range(g)]
            beneath = [] if below is None else list(below[:, i, j])
            joint[:, i, j] = mixed(
                layer.maps, content, to_position, from_position, position, beneath
            )
    return joint


def mixed(maps, content, to_position, from_position, position, beneath):
    if not hasattr(maps, "mix"):
        own = [sum(three) for three in zip(content, to_position, from_position, strict=True)]
        own += position
        return torch.stack([a + b for a, b in zip(own, beneath or [0] * len(own), strict=True)])
    channels = torch.stack([*content, *to_position, *from_position, *position, *beneath])
    out = maps.mix.weight[:, :, 0, 0] @ channels + maps.mix.bias
    return torch.stack([y if y > 0 else s * y for y, s in zip(out, maps.slope.weight, strict=True)])


def sublayers(stream, x, maps, heads):
    values = [projected(stream, one, heads)[2] for one in x]
    out = []
    for i, one in enumerate(x):
        context = []
        for head in range(heads):
            weights = maps[head, i].softmax(0)
            context.append(sum(weights[j] * values[j][head] for j in range(len(x))))
        y = norm(stream.after_attention.norm, one + linear(stream.output, torch.cat(context)))
        inner = gelu(linear(stream.feed_forward.wide, y))
        norm_2 = stream.after_feed_forward.norm
        out.append(norm(norm_2, y + linear(stream.feed_forward.back, inner)))
    return out


def by_loops(model, tokens, ids):
    """States of one sentence without padding."""
    e, h = model.embeddings, SHAPE["word_heads"]
    kind = 0 if e.types is None else e.types.weight[0]
    words = [norm(e.word_norm, e.words.weight[t] + kind) for t in tokens]
    positions = [norm(e.position_norm, e.positions.weight[i]) for i in ids]  # -1 is the last row
    below = None
    for layer in model.layers:
        maps = scores(model, layer, words, positions, ids, below)
        words = sublayers(layer.words, words, maps[:h], h)
        positions = sublayers(layer.positions, positions, maps[h:], SHAPE["position_heads"])
        kept = maps if layer.passes_scores else None
        below = kept
    return torch.stack([torch.cat(pair) for pair in zip(words, positions, strict=True)])


def batch(positions):
    padding = torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS)[:, None]
    tokens = torch.arange(12).view(2, 6) % 11
    return Inputs(tokens, positions=positions, padding=padding)


@pytest.mark.parametrize("ids", [None, IDS], ids=["in order", "hidden and shuffled"])
@pytest.mark.parametrize("name", VARIANTS)
def test_the_encoder_equals_the_papers_loops_with_padding_beside_it(name, ids):
    model = encoder(**VARIANTS[name])
    inputs = batch(None if ids is None else torch.tensor(ids))
    states = model(inputs).states
    for sentence, length in enumerate(LENGTHS):
        own = list(range(length)) if ids is None else list(ids[sentence][:length])
        expected = by_loops(model, inputs.tokens[sentence, :length].tolist(), own)
        torch.testing.assert_close(states[sentence, :length], expected, rtol=0, atol=1e-9)


def test_chosen_states_are_those_of_all_places():
    model, inputs = encoder(), batch(None)
    chosen = torch.tensor([7, 0, 2])
    picked = model(inputs).states.flatten(0, 1)[chosen]
    torch.testing.assert_close(model(inputs, chosen).states[0], picked)


@pytest.mark.parametrize("first", ["words", "positions"])
def test_the_streams_meet_in_the_maps_alone(first):
    """With every map made uniform, no stream knows anything of the other."""
    model = encoder(attention_convolution=True)
    for layer in model.layers:
        torch.nn.init.zeros_(layer.maps.mix.weight)
    one, other = batch(None), batch(torch.tensor(IDS))
    changed = other if first == "words" else one._replace(tokens=one.tokens.flip(1))
    mine, theirs = model(one).states, model(changed).states
    unchanged = slice(0, 12) if first == "words" else slice(12, 18)
    assert torch.equal(mine[..., unchanged], theirs[..., unchanged])
    assert not torch.allclose(mine, theirs)
