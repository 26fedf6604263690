"""Draws follow their laws, and the best are found in stretches as they are directly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.generation.strategies import Sampler, StepScores, top_scores

DRAWS = 20_000
SCORES = torch.tensor([1.0, 0.2, 2.0, -1.0, 0.7, -torch.inf, 1.5])


def frequencies(**options):
    """How often each symbol is drawn, one draw for each of many sentences."""
    settings = {"temperature": 1.0, "topk": 0, "topp": 1.0, **options}
    draw = Sampler(1, 5, settings["temperature"], settings["topk"], settings["topp"])
    scores = SCORES.log_softmax(-1).expand(DRAWS, 1, -1)
    found = draw(StepScores(scores, torch.zeros(DRAWS, 1, 1)), np.arange(DRAWS), 0)
    return np.bincount(found.tokens.flatten().numpy(), minlength=len(SCORES))


def law(temperature=1.0, topk=0, topp=1.0):
    """softmax(scores / T), the topk largest of it, then the fewest that reach topp."""
    shares = (SCORES / temperature).softmax(-1).double().numpy()
    order = np.argsort(-shares)
    kept = order[: topk or len(order)]
    shares = shares / shares[kept].sum()
    reach = np.searchsorted(np.cumsum(shares[kept]), topp) + 1 if topp < 1 else len(kept)
    law = np.zeros(len(shares))
    law[kept[:reach]] = shares[kept[:reach]]
    return law / law.sum()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"topk": 3},
        {"topp": 0.7},
        {"topk": 4, "topp": 0.8, "temperature": 1.5},
        {"topp": 0.01},
    ],
    ids=str,
)
def test_samples_follow_the_distribution(options):
    stats = pytest.importorskip("scipy.stats")
    counts, wanted = frequencies(**options), law(**options)
    assert not counts[wanted == 0].any()
    there = wanted > 0
    if there.sum() > 1:
        assert stats.chisquare(counts[there], DRAWS * wanted[there]).pvalue > 0.001


def test_samples_of_one_sentence_are_independent():
    draw = Sampler(2, 5, 1.0, 0, 1.0)
    scores = torch.zeros(DRAWS, 1, 2).log_softmax(-1)
    found = draw(StepScores(scores, torch.zeros(DRAWS, 2, 1)), np.arange(DRAWS), 0).tokens[..., 0]
    both = np.bincount((2 * found[:, 0] + found[:, 1]).numpy(), minlength=4)
    assert np.abs(both / DRAWS - 0.25).max() < 0.015


@pytest.mark.parametrize("words", [6400, 6401, 6463])
def test_top_scores_in_chunks_equal_topk(words):
    scores = torch.randn(5, words, generator=torch.Generator().manual_seed(0))
    scores[0, : words - 3], scores[1, -1] = -torch.inf, 9.0
    for count in (1, 10):
        values, places = top_scores(scores, count)
        assert torch.equal(values, scores.topk(count).values)
        assert torch.equal(scores.gather(1, places), values)
