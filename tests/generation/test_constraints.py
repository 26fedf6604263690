import numpy as np
import torch

from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.generation.strategies import Constraints


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
