"""Blocks by option against loops over positions: norms, residuals and gated networks."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from toolkit.common.registry import ARCHITECTURES
from toolkit.models.encoder import Encoder
from toolkit.models.heads import build_token_head
from toolkit.models.interface import Inputs, Sizes

SHAPE = {"layers": 2, "width": 8, "heads": 2, "embedding_width": 8, "norm_epsilon": 1e-3}
BLOCKS = {
    "post-norm": {},
    "pre-norm": {"pre_norm": True},
    "post-rms": {"norm": "rms"},
    "pre-rms, swiglu, no biases": {
        "pre_norm": True,
        "norm": "rms",
        "activation": "swiglu",
        "biases": False,
    },
    "post-norm, geglu": {"activation": "geglu", "feed_forward_width": 5},
    "pre-norm, relu, projected": {"pre_norm": True, "activation": "relu", "embedding_width": 4},
}
every_block = pytest.mark.parametrize("name", BLOCKS)


def build(arch: str = "bert_tiny", **options: object) -> Encoder:
    torch.manual_seed(0)
    entry = ARCHITECTURES[arch]
    config = dataclasses.replace(entry.config, **{**SHAPE, **options})
    model = entry.factory(config, Sizes(tokens=30)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def norm(part: torch.nn.Module, x: Tensor) -> Tensor:
    """Norm of one vector, by the equations of LayerNorm and RMSNorm."""
    if isinstance(part, torch.nn.Identity):
        return x
    width, bias = len(x), getattr(part, "bias", None)
    mean = sum(x) / width if isinstance(part, torch.nn.LayerNorm) else 0.0
    variance = sum((x - mean) ** 2) / width
    y = part.weight * (x - mean) / torch.sqrt(variance + SHAPE["norm_epsilon"])
    return y if bias is None else y + bias


def linear(part: torch.nn.Module, x: Tensor) -> Tensor:
    return part.weight @ x if part.bias is None else part.weight @ x + part.bias


def attend(attention: torch.nn.Module, xs: list[Tensor]) -> list[Tensor]:
    projected, out = [linear(attention.project.qkv, x).view(3, 2, 4) for x in xs], []
    for p in projected:
        heads = []
        for head in range(2):
            scores = [p[0, head] @ other[1, head] / math.sqrt(4) for other in projected]
            weights = torch.stack(scores).softmax(0)
            heads.append(sum(w * o[2, head] for w, o in zip(weights, projected, strict=True)))
        out.append(linear(attention.output, torch.cat(heads)))
    return out


def feed_forward(part: torch.nn.Module, x: Tensor, activation: str) -> Tensor:
    y, phi = linear(part.wide, x), torch.distributions.Normal(0.0, 1.0).cdf
    functions = {
        "relu": lambda z: z * (z > 0),
        "gelu": lambda z: z * phi(z),
        "geglu": lambda z: z * phi(z),
        "swiglu": lambda z: z / (1 + torch.exp(-z)),
    }
    f = functions[activation]
    if activation.endswith("glu"):
        inner = len(y) // 2
        return linear(part.back, f(y[:inner]) * y[inner:])
    return linear(part.back, f(y))


def encode(model: Encoder, tokens: Tensor, *, pre_norm: bool, activation: str) -> Tensor:
    """The states of one sentence, one vector after another."""
    e = model.embeddings
    xs = [
        e.words.weight[t] + e.types.weight[0] + e.positions.weight[i] for i, t in enumerate(tokens)
    ]
    xs = [norm(e.norm, x) for x in xs]
    xs = [x if isinstance(e.widen, torch.nn.Identity) else linear(e.widen, x) for x in xs]
    for layer in model.layers:
        one, two = layer.after_attention.norm, layer.after_feed_forward.norm
        network = layer.feed_forward
        if pre_norm:
            ys = attend(layer.attention, [norm(one, x) for x in xs])
            xs = [x + y for x, y in zip(xs, ys, strict=True)]
            xs = [x + feed_forward(network, norm(two, x), activation) for x in xs]
        else:
            ys = attend(layer.attention, xs)
            xs = [norm(one, x + y) for x, y in zip(xs, ys, strict=True)]
            xs = [norm(two, x + feed_forward(network, x, activation)) for x in xs]
    return torch.stack([norm(model.norm, x) for x in xs])


@every_block
def test_encoder_equals_loops_of_the_equations(name):
    options = BLOCKS[name]
    model, tokens = build(**options), torch.randint(30, (2, 5))
    states = model(Inputs(tokens=tokens)).states
    structure = {"pre_norm": model.layers[0].after_attention.pre_norm}
    for sentence, found in zip(tokens, states, strict=True):
        activation = options.get("activation", "gelu")
        expected = encode(model, sentence, activation=activation, **structure)
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)


@every_block
def test_blocks_do_not_depend_on_padding_or_selection(name):
    model, tokens = build(**BLOCKS[name]), torch.randint(30, (2, 5))
    expected = model(Inputs(tokens=tokens)).states
    padded = torch.cat([tokens, torch.randint(30, (2, 3))], 1)
    inputs = Inputs(tokens=padded, padding=torch.arange(8).expand(2, 8) >= 5)
    torch.testing.assert_close(model(inputs).states[:, :5], expected)
    selected = torch.tensor([9, 0, 3])
    torch.testing.assert_close(model(inputs, selected).states[0], expected.flatten(0, 1)[[6, 0, 3]])
    torch.testing.assert_close(model.layer_states(inputs)[-1][:, :5], expected)


def test_checkpointed_pre_norm_layers_have_the_same_gradients():
    model, tokens = (
        build(dropout=0.2, **BLOCKS["pre-rms, swiglu, no biases"]),
        torch.arange(6)[None],
    )
    gradients = []
    for recompute in (False, True):
        torch.manual_seed(1)
        model.train().zero_grad()
        model.layers.checkpoint_activations = recompute
        model(Inputs(tokens=tokens)).states.square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("arch", ["bert_tiny", "composite_bert_tiny"])
def test_encoder_without_biases_has_only_that_of_the_vocabulary(arch):
    model = build(arch, biases=False)
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    assert [n for n, _ in build_token_head(model).named_parameters()] == [
        "bias",
        "transform.weight",
        "norm.weight",
    ]


def test_gated_networks_have_as_many_parameters_by_default():
    sizes = [
        sum(p.numel() for p in build(width=768, layers=1, activation=name).layers.parameters())
        for name in ("gelu", "geglu")
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-3)
