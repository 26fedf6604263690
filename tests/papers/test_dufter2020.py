"""Every variant of Dufter et al. 2020 against the paper's sums, written as loops, in float64."""

from __future__ import annotations

import cmath
import dataclasses
import math

import pytest
import torch

from toolkit.models.conv_san import ConvSanConfig, build_attention, conv_san
from toolkit.models.interface import Inputs, Sizes
from toolkit.nn.attention import Offsets, SequenceContext

T, HEADS = 5, 2
PLAIN = {"positions": "none", "convolution": "none"}
VARIANTS = {
    "plain": {},
    "P": {"position_table": True},
    "R": {"relative_table": True},
    "R as the authors' code has it": {"relative_table": True, "relative_spectral": True},
    "P+R": {"position_table": True, "relative_table": True},
    "Temp": {"temperature": True},
    "1d": {"convolution": "1d"},
    "2d": {"convolution": "2d"},
    "everything, 1d": {
        "positions": "concat",
        "position_table": True,
        "relative_table": True,
        "temperature": True,
        "convolution": "1d",
    },
    "everything, 2d": {
        "positions": "add",
        "position_table": True,
        "relative_table": True,
        "temperature": True,
        "convolution": "2d",
    },
}


def config(name: str) -> ConvSanConfig:
    small = ConvSanConfig(
        layers=3, heads=HEADS, word_width=6, position_width=4, character_width=4, fixed_length=T
    )
    return dataclasses.replace(small, **{**PLAIN, **VARIANTS[name]})


def randomized(module: torch.nn.Module) -> torch.nn.Module:
    """In float64 and every number of it random, so that nothing is zero or one by chance."""
    torch.manual_seed(0)
    module.double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return module


def sum_of(values):
    return sum(values, torch.zeros((), dtype=torch.float64))


def scores(x, part, head):
    """g_q g_k (x_i W_q) . (x_j W_k) / sqrt(d_h) + P_ij + a_{i-j+t}, and the values g_v x_j W_v."""
    width = x.shape[1] // HEADS
    w, g = part.project.qkv.weight, part.project.temperature
    q, k, v = (
        x @ w[kind * x.shape[1] + head * width :][:width].T * (1 if g is None else g[kind, head])
        for kind in range(3)
    )
    a = torch.zeros(T, T, dtype=torch.float64)
    for i in range(T):
        for j in range(T):
            a[i, j] = q[i] @ k[j] / math.sqrt(width)
            for term in part.map.terms:
                if hasattr(term, "table"):
                    a[i, j] += term.table[head, i, j]
                else:
                    a[i, j] += relative(term.kernels[0], head, i, j)
    return a, v


def relative(kernel, head, i, j):
    numbers = kernel.numbers[head]
    if not kernel.spectral:
        return numbers[i - j + T]
    waves = [cmath.exp(2j * math.pi * n * ((i - j) % (2 * T)) / (2 * T)) for n in range(2 * T)]
    return sum_of(numbers[n] * waves[n].real for n in range(2 * T)) / (2 * T)


def along_queries(m, smoothing, head):
    out = torch.zeros_like(m)
    for i in range(T):
        for f in range(T):
            total = sum_of(
                smoothing.filters[head, d + 1, k, f] * m[i + d, k]
                for d in (-1, 0, 1)
                for k in range(T)
                if 0 <= i + d < T
            )
            out[i, f] = max(total + smoothing.bias[head, f], 0 * total)
    return out


def over_pairs(m, smoothing, head):
    out = torch.zeros_like(m)
    for i in range(T):
        for j in range(T):
            total = sum_of(
                smoothing.filters[head, 0, d + 1, e + 1] * m[i + d, j + e]
                for d in (-1, 0, 1)
                for e in (-1, 0, 1)
                if 0 <= i + d < T and 0 <= j + e < T
            )
            out[i, j] = max(total + smoothing.bias[head], 0 * total)
    return out


def attended(x, part, convolution):
    """concat over heads(conv(softmax(A)) x W_v) of one sentence, as sums over its places."""
    heads = []
    for head in range(HEADS):
        a, v = scores(x, part, head)
        m = torch.stack([row.exp() / sum_of(row.exp()) for row in a])
        if convolution != "none":
            smooth = along_queries if convolution == "1d" else over_pairs
            m = smooth(m, part.map.smoothing, head)
        heads.append(torch.stack([sum_of(m[i, j] * v[j] for j in range(T)) for i in range(T)]))
    return torch.cat(heads, 1)


def character_vector(spelling, characters):
    """max over positions of three ReLU convolutions of the characters, nothing beyond the ends."""
    x = [spelling.characters.weight[c] for c in characters]
    for w, b in zip(spelling.filters, spelling.biases, strict=True):
        reach = len(w) // 2
        x = [
            torch.clamp(
                b
                + sum_of(
                    x[i + d] @ w[d + reach] for d in range(-reach, reach + 1) if 0 <= i + d < len(x)
                ),
                min=0,
            )
            for i in range(len(x))
        ]
    return torch.stack(x).amax(0)


def embedded(tables, tokens, word_index, char_ids):
    rows = []
    for place, (token, word_row) in enumerate(zip(tokens, word_index, strict=True)):
        word = tables.words.weight[token]
        parts = [word if tables.added_positions is None else word + tables.added_positions[place]]
        parts += (
            [] if tables.concatenated_positions is None else [tables.concatenated_positions[place]]
        )
        rows.append(torch.cat([*parts, character_vector(tables.character_cnn, char_ids[word_row])]))
    return torch.stack(rows)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_first_layers_attention_equals_the_papers_loops(name):
    c = config(name)
    part = randomized(build_attention(c, first=True))
    x = torch.randn(2, T, c.width, dtype=torch.float64)
    got = part(x, SequenceContext(Offsets(None, T, x.device)))
    want = torch.stack([attended(sentence, part, c.convolution) for sentence in x])
    torch.testing.assert_close(got, want, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_whole_network_equals_the_papers_loops(name):
    c = config(name)
    model = randomized(conv_san(c, Sizes(tokens=9, characters=7)))
    tokens, word_index = torch.randint(9, (2, T)), torch.randint(4, (2, T))
    char_ids = torch.randint(7, (4, 6))
    got = model(Inputs(tokens, char_ids=char_ids, word_index=word_index)).states
    for sentence in range(2):
        first = x = embedded(model.embeddings, tokens[sentence], word_index[sentence], char_ids)
        for layer in model.layers:
            x = x + attended(x, layer.attention, c.convolution)
        torch.testing.assert_close(got[sentence], torch.cat([first, x], 1), atol=1e-9, rtol=1e-9)
