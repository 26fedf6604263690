import numpy as np
import torch

from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.generation.strategies import Constraints, find_repeats

WORDS, END = 6, 0


def allowed_tokens(prompts, generated, ngram=0, forbidden=()):
    """The tokens that each row may generate."""
    scores, rows = (
        torch.zeros(len(generated), WORDS),
        np.array(generated).reshape(len(generated), -1),
    )
    constraints = Constraints(prompts, SpecialTokens(END, forbidden), ngram)
    constraints.apply(scores, np.arange(len(generated)), rows)
    return [row.isfinite().nonzero().flatten().tolist() for row in scores]


def test_forbidden_tokens_are_never_generated():
    assert allowed_tokens([DecodingPrompt(9)], [[2]], forbidden=(1, 4)) == [[0, 2, 3, 5]]


def test_length_limits_allow_the_end_neither_too_early_nor_too_late():
    prompts = [DecodingPrompt(9, min_length=2), DecodingPrompt(9, min_length=1), DecodingPrompt(1)]
    assert allowed_tokens(prompts, [[2], [2], [2]]) == [[1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0]]


def test_prefix_is_generated_whatever_else_is_forbidden():
    prompts = [
        DecodingPrompt(9, prefix=(3, 4), min_length=5),
        DecodingPrompt(9, prefix=(3,)),
        DecodingPrompt(9),
    ]
    got = allowed_tokens(prompts, [[4], [4], [4]], ngram=1, forbidden=(4,))
    assert got == [[4], [0, 1, 2, 3, 5], [0, 1, 2, 3, 5]]


def test_repeated_ngrams_are_forbidden():
    rows, symbols = find_repeats(np.array([[1, 2, 1, 3, 1], [1, 1, 1, 2, 3]]), 2)
    assert list(zip(rows.tolist(), symbols.tolist(), strict=True)) == [(0, 2), (0, 3)]
    rows, symbols = find_repeats(np.array([[1, 2, 3, 1, 2]]), 3)
    assert symbols.tolist() == [3]


def test_repeated_ngrams_include_those_of_the_prompt():
    prompts = [DecodingPrompt(9, prompt=(1, 2, 3)), DecodingPrompt(9, prompt=(4, 5, 3))]
    assert allowed_tokens(prompts, [[1], [1]], ngram=2) == [[0, 1, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
