import math

import pytest
import torch

from toolkit.analysis.attention_distance import concentration, uniform_concentration


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
