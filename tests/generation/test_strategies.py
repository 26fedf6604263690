from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.generation.strategies import Constraints, sample_candidates

DRAWS = 20_000
SCORES = torch.tensor([1.0, 0.2, 2.0, -1.0, 0.7, -torch.inf, 1.5])


def frequencies(**options):
    """Counts of the sampled tokens, one sample for each of many sentences."""
    names = {"temperature": "temperature", "topk": "sampling_topk", "topp": "sampling_topp"}
    given = {names[name]: value for name, value in options.items()}
    c, sentences = SearchConfig(beam=1, seed=5, **given), np.arange(DRAWS)
    scores = SCORES.log_softmax(-1).expand(DRAWS, 1, -1)
    drawn = sample_candidates(scores, torch.zeros(DRAWS, 1, 1), c, sentences, 0)
    return np.bincount(drawn[2].flatten().numpy(), minlength=len(SCORES))


def distribution(temperature=1.0, topk=0, topp=1.0):
    """softmax(scores / T), the topk largest of it, then the fewest that reach topp."""
    probabilities = (SCORES / temperature).softmax(-1).double().numpy()
    order = np.argsort(-probabilities)
    candidates = order[: topk or len(order)]
    probabilities = probabilities / probabilities[candidates].sum()
    count = (
        np.searchsorted(np.cumsum(probabilities[candidates]), topp) + 1
        if topp < 1
        else len(candidates)
    )
    truncated = np.zeros(len(probabilities))
    truncated[candidates[:count]] = probabilities[candidates[:count]]
    return truncated / truncated.sum()


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
    counts, expected = frequencies(**options), distribution(**options)
    assert not counts[expected == 0].any()
    possible = expected > 0
    if possible.sum() > 1:
        assert stats.chisquare(counts[possible], DRAWS * expected[possible]).pvalue > 0.001


def test_samples_of_one_sentence_are_independent():
    c = SearchConfig(beam=2, seed=5, nbest=1)
    scores = torch.zeros(DRAWS, 1, 2).log_softmax(-1)
    drawn = sample_candidates(scores, torch.zeros(DRAWS, 2, 1), c, np.arange(DRAWS), 0)
    tokens = drawn[2][..., 0]
    both = np.bincount((2 * tokens[:, 0] + tokens[:, 1]).numpy(), minlength=4)
    assert np.abs(both / DRAWS - 0.25).max() < 0.015
    later = sample_candidates(scores, torch.zeros(DRAWS, 2, 1), c, np.arange(DRAWS), 1)
    assert abs((later[2][..., 0] == tokens).double().mean() - 0.5) < 0.015


def allowed_tokens(prompts, generated, ngram=0, forbidden=()):
    """The tokens that each row may generate."""
    scores, rows = torch.zeros(len(generated), 6), np.array(generated)
    constraints = Constraints(prompts, SpecialTokens(0, forbidden), ngram)
    constraints.apply(scores, np.arange(len(generated)), rows)
    return [row.isfinite().nonzero().flatten().tolist() for row in scores]


def test_prefix_is_generated_whatever_else_is_forbidden():
    prompts = [DecodingPrompt(9, prefix=(3, 4), min_length=5), DecodingPrompt(9, prefix=(3,))]
    got = allowed_tokens(prompts, [[4], [4]], ngram=1, forbidden=(4,))
    assert got == [[4], [0, 1, 2, 3, 5]]


def test_repeated_ngrams_include_those_of_the_prompt():
    prompts = [DecodingPrompt(9, prompt=(1, 2, 3)), DecodingPrompt(9, prompt=(4, 5, 3))]
    assert allowed_tokens(prompts, [[1], [1]], ngram=2) == [[0, 1, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
