"""Switches of the shared encoder against loops over heads, queries and layers in float64."""

import pytest
import torch
from torch.nn import functional as F

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.models.interface import Inputs

SWITCHES = ("qk_norm", "smeared_keys", "attention_gate", "layer_average")
SIZES = {"layers": 3, "width": 8, "heads": 2, "embedding_width": 8, "max_positions": 16}


def build(switches, **options):
    torch.manual_seed(0)
    names = dict.fromkeys(switches, True)
    learner = build_model("bert_tiny", vocabulary_size=40, task="mlm", **SIZES, **names, **options)
    encoder = learner.encoder.double().eval()
    with torch.no_grad():
        for p in encoder.parameters():
            p.copy_(torch.randn(p.shape, dtype=p.dtype) * 0.5)
    return encoder


def attend(attention, x, switches):
    """Attention of one sentence, by head and query."""
    project, rows = attention.project, []
    heads, width = project.heads, x.shape[1] // project.heads
    q, k, v = (y.view(len(x), heads, width) for y in project.qkv(x).chunk(3, -1))
    for i in range(len(x)):
        outputs = []
        for h in range(heads):
            queries, keys = q[:, h], k[:, h]
            changes = list(project.changes)
            if "qk_norm" in switches:
                norm = changes.pop(0)
                queries, keys = (
                    torch.stack([g.weight * y / (y.square().mean() + g.eps).sqrt() for y in ys])
                    for g, ys in ((norm.query_norm, queries), (norm.key_norm, keys))
                )
            if "smeared_keys" in switches:
                own = changes.pop(0).smear_bias[h, 0, 0].sigmoid()
                mixed = [own * keys[j] + (1 - own) * keys[j - 1] for j in range(1, len(x))]
                keys = torch.stack([keys[0], *mixed])
            scores = torch.stack([queries[i] @ key for key in keys]) / width**0.5
            outputs.append(sum(w * y for w, y in zip(scores.softmax(0), v[:, h], strict=True)))
        context = torch.cat(outputs)
        if "attention_gate" in switches:
            gate = attention.gate
            context = context * (gate.weight @ x[i] + gate.bias).sigmoid()
        rows.append(attention.output(context))
    return torch.stack(rows)


def encode(encoder, tokens, switches):
    """The states of one sentence."""
    x = encoder.embeddings(tokens[None], None, None)[0]
    states = [x]
    for number, layer in enumerate(encoder.layers):
        x = layer.after_attention.norm(x + attend(layer.attention, x, switches))
        feed = layer.feed_forward
        x = layer.after_feed_forward.norm(x + feed.back(F.gelu(feed.wide(x))))
        states.append(x)
        if "layer_average" in switches:
            weights = encoder.layers.layer_weights[number]
            x = sum(weights[j] * states[j] for j in range(number + 2))
    return x


@pytest.mark.parametrize("switches", [*((name,) for name in SWITCHES), SWITCHES])
def test_switches_equal_loops_alone_and_in_padded_batches(switches):
    encoder = build(switches)
    tokens = torch.randint(5, 40, (2, 7), generator=torch.Generator().manual_seed(1))
    lengths, padding = (7, 4), torch.arange(7)[None] >= torch.tensor([[7], [4]])
    states = encoder(Inputs(tokens, padding=padding)).states
    chosen = torch.tensor([1, 6, 7, 10])
    selected = encoder(Inputs(tokens, padding=padding), chosen).states.flatten(0, 1)
    assert torch.allclose(selected, states.flatten(0, 1)[chosen])
    assert torch.allclose(encoder.layer_states(Inputs(tokens, padding=padding))[-1], states)
    for row, length in enumerate(lengths):
        expected = encode(encoder, tokens[row, :length], switches)
        assert torch.allclose(states[row, :length], expected)


def test_initial_weights_of_layers_and_keys_leave_the_model_nearly_as_it_is():
    found, inputs = {}, Inputs(torch.arange(9)[None])
    for switches in ((), ("layer_average",), ("smeared_keys",)):
        torch.manual_seed(0)
        names = dict.fromkeys(switches, True)
        model = build_model("bert_tiny", vocabulary_size=40, **SIZES, **names).eval()
        found[switches] = model(inputs).states
    assert torch.equal(found[()], found["layer_average",])
    assert (found[()] - found["smeared_keys",]).abs().max() < 0.01


def test_convolved_projections_reject_switches_of_queries_and_keys():
    with pytest.raises(ToolkitError, match=r"arch.qk_norm .* Leave arch.convolve out"):
        build_model(
            "composite_bert_tiny", vocabulary_size=40, convolve=["query"], radius=1, qk_norm=True
        )
