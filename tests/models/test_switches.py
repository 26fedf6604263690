"""Switches of the shared encoder against loops over heads, queries and layers in float64."""

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.criteria import Classes, ProjectedClasses
from toolkit.criteria.cross_entropy import CrossEntropy, CrossEntropyConfig
from toolkit.models.interface import Inputs
from toolkit.tasks.task import score_targets

SWITCHES = {
    **dict.fromkeys(("qk_norm", "smeared_keys", "attention_gate", "value_residual"), True),
    "value_embeddings": 1,
}
CASES = [{name: value} for name, value in SWITCHES.items()]
CASES += [
    {"layer_average": True},
    {"weighted_residuals": True, "pre_norm": True},
    {**SWITCHES, "layer_average": True},
    {**SWITCHES, "weighted_residuals": True, "pre_norm": True},
]
SIZES = {"layers": 3, "width": 8, "heads": 2, "embedding_width": 8, "max_positions": 16}


def build(**options):
    torch.manual_seed(0)
    learner = build_model("bert_tiny", vocabulary_size=40, task="mlm", **SIZES, **options).double()
    with torch.no_grad():
        for p in learner.parameters():
            p.copy_(torch.randn(p.shape, dtype=p.dtype) * 0.5)
    return learner.eval()


def attend(attention, x, switches, others):
    """Attention of one sentence, by head and query; `others` are values that it may add."""
    project, rows = attention.project, []
    heads, width = project.heads, x.shape[1] // project.heads
    q, k, v = (y.view(len(x), heads, width) for y in project.qkv(x).chunk(3, -1))
    changes = list(project.changes)
    norm = changes.pop(0) if "qk_norm" in switches else None
    smear = changes.pop(0) if "smeared_keys" in switches else None
    if "value_residual" in switches and "first" not in others:
        others["first"], _ = v, changes.pop(0)
    to_add = [y for y in others.values() if y is not v]
    for change, values in zip(changes, to_add, strict=True):
        own, other = change.mix_bias
        pairs = zip(v.unbind(), values.view(v.shape).unbind(), strict=True)
        v = torch.stack([own * y + other * z for y, z in pairs])
    for i in range(len(x)):
        outputs = []
        for h in range(heads):
            queries, keys = q[:, h], k[:, h]
            if norm is not None:
                queries, keys = (
                    torch.stack([g.weight * y / (y.square().mean() + g.eps).sqrt() for y in ys])
                    for g, ys in ((norm.query_norm, queries), (norm.key_norm, keys))
                )
            if smear is not None:
                own = smear.smear_bias[h, 0, 0].sigmoid()
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


def run_layer(layer, x, switches, others):
    """What a layer adds to its input and its output."""
    before, between = layer.after_attention.norm, layer.after_feed_forward.norm
    feed = lambda y: layer.feed_forward.back(F.gelu(layer.feed_forward.wide(y)))  # noqa: E731
    if "pre_norm" not in switches:
        y = before(x + attend(layer.attention, x, switches, others))
        return None, between(y + feed(y))
    a = attend(layer.attention, before(x), switches, others)
    f = feed(between(x + a))
    return a + f, x + a + f


def encode(encoder, tokens, switches):
    """The states of one sentence."""
    x = encoder.embeddings(tokens[None], None, None)[0]
    states, mixes, first = [x], encoder.layers.weights, {}
    for number, layer in enumerate(encoder.layers):
        tables = encoder.value_tables if number in (0, 2) else []  # the first and the last
        others = {**first, **{table: table(tokens) for table in tables}}
        added, x = run_layer(layer, x, switches, others)
        first = {name: y for name, y in others.items() if name == "first"}
        if "layer_average" in switches:
            states.append(x)
            x = sum(mixes[number, j] * states[j] for j in range(number + 2))
        if "weighted_residuals" in switches:
            states.append(added)
            x = added
            if number < 2:
                terms = [mixes[number, j].exp() for j in range(number + 2)]
                x = sum(term / sum(terms) * h for term, h in zip(terms, states, strict=True))
    return encoder.norm(x)


@pytest.mark.parametrize("switches", CASES, ids="-".join)
def test_switches_equal_loops_alone_and_in_padded_batches(switches):
    encoder = build(**switches).encoder
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


def test_soft_cap_of_logits_equals_a_loop_in_predictions_losses_and_gradients():
    learner = build(logit_cap=2.0)
    head, table = learner.task.head, learner.encoder.token_embedding.weight
    states = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([3, 1, -100, 7, 39, 0])
    hidden, logits = head.norm(F.gelu(head.transform(states))), head(states, table)
    pairs = [
        [(h @ e + b).item() / 2 for e, b in zip(table, head.bias, strict=True)] for h in hidden
    ]
    loops = torch.tensor([[2 * math.tanh(z) for z in row] for row in pairs], dtype=torch.float64)
    torch.testing.assert_close(logits, loops)
    chunks = head(states, table, lambda *p: ProjectedClasses(*p[:3], targets, p[3]))
    criterion = CrossEntropy(CrossEntropyConfig(z_loss=0.1))
    losses = [criterion({"mlm": it})["mlm"] for it in (Classes(logits, targets), chunks)]
    leaves = [states, *head.parameters(), table]
    found = [torch.autograd.grad(loss, leaves) for loss in losses]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*found)
    kept = targets != -100
    scores = head(states[kept], table, partial(score_targets, targets=targets[kept]))
    want = loops[kept].log_softmax(-1).gather(1, targets[kept][:, None])[:, 0]
    torch.testing.assert_close(scores.log_probabilities, want)


@pytest.mark.parametrize("switches", CASES[-2:], ids="-".join)
def test_recomputed_activations_give_the_same_gradients(switches):
    encoder, found = build(**switches).encoder, []
    for recompute in (False, True):
        encoder.layers.checkpoint_activations = recompute
        loss = encoder(Inputs(torch.arange(12).view(2, 6))).states.square().sum()
        found.append(torch.autograd.grad(loss, [*encoder.parameters()], allow_unused=True))
    torch.testing.assert_close(*found)


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
    with pytest.raises(ToolkitError, match=r"arch.qk_norm, .* Leave arch.convolve out"):
        build_model(
            "composite_bert_tiny", vocabulary_size=40, convolve=["query"], radius=1, qk_norm=True
        )
