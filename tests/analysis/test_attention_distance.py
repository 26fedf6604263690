import math

import pytest
import torch

from toolkit import load_checkpoint
from toolkit.analysis.attention_distance import (
    AttentionLocality,
    concentration,
    locality_table,
    measure_locality,
    uniform_concentration,
)
from toolkit.analysis.extract_attention import attention_maps
from toolkit.analysis.read_text import encode_with_special_tokens
from toolkit.config.commands.plot import AttentionConfig
from toolkit.models.interface import Inputs

LINES = ["the cat sat on a mat and saw", "how dogs run far and how the cat saw a dog", "the"]


@pytest.fixture
def learner(trained):
    return load_checkpoint(trained)


def near(learner, lines=LINES, **options):
    c = AttentionConfig(path=["run"], sentences="text", **options)
    return measure_locality("run", learner, lines, c)


def test_locality_is_the_mean_over_sentences(learner):
    expected = []
    for line in LINES[:2]:
        [layer] = attention_maps(
            learner.encoder, Inputs(torch.tensor([encode_with_special_tokens(learner, line)]))
        )
        expected.append(concentration(layer.mean(1)).item())
    everything, only = near(learner)
    assert everything.mean == pytest.approx(sum(expected) / 2, rel=1e-5)
    assert everything.deviation == pytest.approx(abs(expected[0] - expected[1]) / 2**0.5, rel=1e-3)
    assert (everything.layer, only.layer) == (None, 1) and only.mean == everything.mean


def test_locality_leaves_out_short_sentences(learner):
    short = [line for line in LINES if len(encode_with_special_tokens(learner, line)) < 6]
    assert (near(learner)[0].sentences, near(learner)[0].short) == (2, len(short)) == (2, 1)
    nothing = near(learner, ["the"])[0]
    assert nothing.mean is None and nothing.sentences == 0


def test_locality_includes_that_of_uniform_attention(learner):
    tokens = len(encode_with_special_tokens(learner, LINES[0]))
    assert near(learner, LINES[:1])[0].uniform == pytest.approx(uniform_concentration(tokens))


def test_locality_is_that_of_selected_heads(learner):
    one, two, both = (near(learner, LINES[:1], heads=h)[0] for h in ([1], [2], [1, 2]))
    rates = sorted([one.near_rate, two.near_rate])
    assert both.near_rate == pytest.approx(sum(rates) / 2, rel=1e-5)


def test_locality_of_narrow_windows_is_infinite(learner, monkeypatch):
    def diagonal(encoder, inputs, of):
        rows, length = inputs.tokens.shape
        return [of(torch.eye(length).expand(rows, 2, length, length))]

    monkeypatch.setattr("toolkit.analysis.attention_distance.attention_maps", diagonal)
    found = near(learner)
    assert (found[0].mean, found[0].deviation, found[0].near_rate) == (math.inf, None, 1.0)
    assert "inf          -  100.0%" in locality_table(found, several=False).text()


def test_locality_table_counts_sentences():
    rows = [
        AttentionLocality("run", None, 0.5, 0.1, 1 / 3, 0.2, 40, 2),
        AttentionLocality("run", 1, 0.5, 0.1, 1 / 3, 0.2, 40, 2),
    ]
    text = locality_table(rows, several=False).text()
    assert "mean over 40 sentences, 2 too short" in text
    assert "mean   0.50000    0.10000  33.3%  0.20000" in text and "checkpoint" not in text


def by_loops(weights):
    """Jiang et al. 2020, section 6.5, as it is written."""
    near = far = 0.0
    for i, row in enumerate(weights.tolist()):
        for j, weight in enumerate(row):
            if abs(i - j) <= 4:
                near += weight
            else:
                far += weight
    return near / far


def test_concentration_equals_the_sums_of_the_paper():
    maps = torch.randn(3, 11, 11, dtype=torch.float64).softmax(-1)
    expected = torch.tensor([by_loops(m) for m in maps], dtype=torch.float64)
    torch.testing.assert_close(concentration(maps), expected, rtol=1e-12, atol=0)


def test_concentration_ignores_padding():
    scores = torch.randn(1, 8, 8)
    alone = concentration(scores.softmax(-1))
    padded = torch.full((1, 10, 10), -torch.inf)
    padded[:, :8, :8], padded[:, 8:, 8:] = scores, 0.0
    padding = torch.arange(10)[None] >= 8
    torch.testing.assert_close(concentration(padded.softmax(-1), padding), alone)


@pytest.mark.parametrize("tokens", [6, 9, 40])
def test_uniform_concentration_equals_that_of_a_uniform_map(tokens):
    even = torch.full((1, tokens, tokens), 1 / tokens)
    assert uniform_concentration(tokens) == pytest.approx(concentration(even).item())


def test_concentration_of_five_tokens_is_infinite():
    assert math.isinf(concentration(torch.full((1, 5, 5), 0.2)).item())
