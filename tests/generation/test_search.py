"""Beam search against exhaustive search, and against itself in other batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from toolkit.config.commands.generate import SearchConfig
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.generation.search import search
from toolkit.generation.step_scorer import PrefixScorer

WORDS, END, NEVER = 4, 0, 3
EVERY = 400
"""A beam that is larger than the number of hypotheses."""
SENTENCES = 3


@pytest.fixture(scope="module")
def step():
    """Scores of the next symbol from the sentence and the last two symbols."""
    table = torch.randn(7, WORDS + 1, WORDS, WORDS, dtype=torch.float64, generator=seeded(0)) * 2

    def scores(prefixes, sentences):
        before = prefixes[:, -2] if prefixes.shape[1] > 1 else torch.full((len(prefixes),), WORDS)
        return table[sentences % 7, before, prefixes[:, -1]]

    return scores


def seeded(number):
    return torch.Generator().manual_seed(number)


def make_prompts(count=SENTENCES, **options):
    return [DecodingPrompt(**{"max_length": 4, "number": n, **options}) for n in range(count)]


def run_search(step, prompts, **options):
    c = SearchConfig(**{"beam": EVERY, **options})
    return search([PrefixScorer(step)], prompts, SpecialTokens(END, (NEVER,)), c)


def log_probabilities(step, sentence, tokens):
    """Log-probabilities of every token, computed prefix by prefix."""
    prefix, each = [END], []
    for token in tokens:
        scores = step(torch.tensor([prefix]), torch.tensor([sentence]))[0].log_softmax(-1)
        each.append(float(scores[token]))
        prefix.append(token)
    return each


def allowed(tokens, prompt, ngram):
    runs = [tokens[i : i + ngram] for i in range(len(tokens) - ngram + 1)] if ngram else []
    return (
        prompt.min_length <= len(tokens) <= prompt.max_length
        and tokens[: len(prompt.prefix)] == tuple(prompt.prefix)
        and len(set(runs)) == len(runs)
    )


def exhaustive(step, sentence, prompt, lenpen=1.0, ngram=0):
    """Every hypothesis that the rules allow, best first."""
    words = [w for w in range(WORDS) if w not in (END, NEVER)]
    every = itertools.chain.from_iterable(
        itertools.product(words, repeat=length) for length in range(prompt.max_length + 1)
    )
    scored = []
    for tokens in every:
        if allowed(tokens, prompt, ngram):
            total = sum(log_probabilities(step, sentence, (*tokens, END)))
            scored.append((total / (len(tokens) + 1) ** lenpen, list(tokens)))
    return sorted(scored, reverse=True)


SETTINGS = [
    ({}, {}),
    ({"lenpen": 0.0}, {}),
    ({"lenpen": 2.5}, {}),
    ({}, {"min_length": 2}),
    ({}, {"min_length": 4}),
    ({}, {"max_length": 1}),
    ({}, {"max_length": 0}),
    ({}, {"prefix": (2, 1)}),
    ({"lenpen": 0.5}, {"prefix": (1,), "min_length": 2, "max_length": 3}),
    ({"no_repeat_ngram_size": 1}, {}),
    ({"no_repeat_ngram_size": 2}, {"min_length": 1}),
]


@pytest.mark.parametrize(("options", "rules"), SETTINGS, ids=str)
def test_exhaustive_beam_finds_the_best_hypotheses(step, options, rules):
    prompts = make_prompts(**rules)
    lenpen, ngram = options.get("lenpen", 1.0), options.get("no_repeat_ngram_size", 0)
    for n, got in enumerate(run_search(step, prompts, **options)):
        want = exhaustive(step, n, prompts[n], lenpen, ngram)
        assert [h.tokens for h in got] == [tokens for _, tokens in want]
        np.testing.assert_allclose([h.score for h in got], [score for score, _ in want])
        each = log_probabilities(step, n, (*got[0].tokens, END))
        np.testing.assert_allclose(got[0].log_probabilities, each)


def plain_beam(step, sentence, prompt, beam, lenpen):
    """The search as loops: 2 K candidates, those among the first K that end are finished."""
    active, finished = [((), 0.0)], []
    while active and len(finished) < beam:
        candidates = []
        for tokens, total in active:
            scores = step(torch.tensor([[END, *tokens]]), torch.tensor([sentence]))[0]
            for word, score in enumerate(scores.log_softmax(-1).tolist()):
                too_short = word == END and len(tokens) < prompt.min_length
                overlength = word != END and len(tokens) >= prompt.max_length
                if not (word == NEVER or too_short or overlength):
                    candidates.append((total + score, (*tokens, word)))
        candidates = sorted(candidates, reverse=True)[: 2 * beam]
        for total, tokens in candidates[:beam]:
            if tokens[-1] == END:
                finished.append((total / len(tokens) ** lenpen, list(tokens[:-1])))
        active = [(tokens, total) for total, tokens in candidates if tokens[-1] != END][:beam]
    return sorted(finished, reverse=True)[:beam]


@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "rules", [{}, {"min_length": 3, "max_length": 6}, {"max_length": 9}], ids=str
)
def test_narrow_beam_equals_plain_loops(step, beam, rules):
    prompts = make_prompts(6, **rules)
    for n, got in enumerate(run_search(step, prompts, beam=beam, lenpen=0.7)):
        want = plain_beam(step, n, prompts[n], beam, 0.7)
        assert [h.tokens for h in got] == [tokens for _, tokens in want]


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 3},
        {"beam": 4, "diverse_beam_groups": 2},
        {"beam": 2, "sampling": True},
        {"beam": 3, "no_repeat_ngram_size": 2},
    ],
    ids=str,
)
def test_hypotheses_of_a_sentence_do_not_depend_on_its_batch(step, options):
    prompts = [DecodingPrompt(max_length=1 + n % 9, min_length=n % 2, number=n) for n in range(24)]
    together = run_search(step, prompts, **options)
    for n, prompt in enumerate(prompts):
        (alone,) = run_search(lambda p, s, n=n: step(p, s + n), [prompt], **options)
        assert [h.tokens for h in alone] == [h.tokens for h in together[n]]


def test_ensemble_scores_are_the_mean_probabilities(step):
    other = lambda p, s: step(p, s).flip(-1)  # noqa: E731
    scorers, prompts = [PrefixScorer(step), PrefixScorer(other)], make_prompts(1)
    ((best, *_),) = search(scorers, prompts, SpecialTokens(END, (NEVER,)), SearchConfig(beam=2))
    each = [np.exp(log_probabilities(f, 0, (*best.tokens, END))) for f in (step, other)]
    np.testing.assert_allclose(np.exp(best.log_probabilities[:1]), (each[0] + each[1])[:1] / 2)


def test_diverse_groups_avoid_each_other_and_keep_the_scores_of_the_model(step):
    prompts = make_prompts(max_length=6)
    equal = run_search(step, prompts, beam=2, diverse_beam_groups=2, diverse_beam_strength=0.0)
    diverse = run_search(step, prompts, beam=2, diverse_beam_groups=2, diverse_beam_strength=50.0)
    for n, (one, two) in enumerate(zip(equal, diverse, strict=True)):
        assert one[0].tokens == one[1].tokens
        assert not any(a == b for a, b in zip(two[0].tokens, two[1].tokens, strict=False))
        for hypothesis in two:
            each = log_probabilities(step, n, (*hypothesis.tokens, END))
            assert hypothesis.score == pytest.approx(sum(each) / len(each))


def test_first_diverse_group_equals_a_beam_search_of_its_size(step):
    for got, want in zip(
        run_search(step, make_prompts(), beam=6, diverse_beam_groups=3),
        run_search(step, make_prompts(), beam=2),
        strict=True,
    ):
        assert all(h.tokens in [g.tokens for g in got] for h in want)


def test_end_symbol_can_be_generated_although_it_is_also_the_start_symbol():
    words = Vocabulary(["<end>", "<pad>", "<mask>", "a"], pad=1, cls=0, sep=0, mask=2, unk=3)
    assert SpecialTokens.from_vocabulary(words) == SpecialTokens(0, (1, 2))


def test_search_returns_unfinished_hypotheses_if_none_can_continue(step):
    (got, *_) = run_search(step, make_prompts(min_length=4), beam=2, no_repeat_ngram_size=1)
    assert sorted(got[0].tokens) == [1, 2]


def test_prompt_is_read_first_and_not_part_of_the_hypothesis(step):
    prompts = [DecodingPrompt(max_length=4, prompt=(1, 2), number=n) for n in range(2)]
    after = lambda p, s: step(p, s)  # noqa: E731
    for n, got in enumerate(run_search(after, prompts, beam=2)):
        first = step(torch.tensor([[END, 1, 2]]), torch.tensor([n]))[0].log_softmax(-1)
        symbol = (*got[0].tokens, END)[0]
        assert got[0].log_probabilities[0] == pytest.approx(float(first[symbol]))
