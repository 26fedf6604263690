import pytest
import torch

from tests.models.test_encoder_decoder import FEW, build
from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.generate import generate
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.generation.search import search
from toolkit.generation.step_scorer import (
    CachedScorer,
    PrefixScorer,
    compute_alignments,
    score_references,
)
from toolkit.models.interface import Inputs

SPECIAL_TOKENS = SpecialTokens(1, (0,))


def sources():
    tokens, lengths = torch.randint(2, 23, (4, 7)), torch.tensor([7, 3, 5, 1])
    return Inputs(tokens, padding=torch.arange(7) >= lengths[:, None])


def without_cache(model, inputs):
    """The whole prefix is decoded for every token, each row with a separate source."""

    def step(prefixes, sentences):
        encoded = padding = None
        if inputs is not None:
            padding = inputs.padding[sentences]
            encoded = model(Inputs(inputs.tokens[sentences], padding=padding))
        return model.scores(model.decode(prefixes, encoded, padding)[:, -1])

    return PrefixScorer(step)


def cached(model, inputs):
    return CachedScorer(model, inputs, 4)


@pytest.mark.parametrize(("name", "changes"), FEW, ids=str)
@torch.no_grad()
def test_cached_search_equals_the_search_with_whole_prefixes(name, changes):
    model = build(name, changes)
    model.target_embedding.weight.data[1] *= 3  # ends now and then
    inputs = None if model.decoder_only else sources()
    prompt = (3, 4) if model.decoder_only else ()
    prompts = [DecodingPrompt(5 + n, prompt=prompt) for n in range(4)]
    got, want = (
        search([scorer(model, inputs)], prompts, SPECIAL_TOKENS, SearchConfig(beam=3))
        for scorer in (cached, without_cache)
    )
    for cached_hypotheses, expected in zip(got, want, strict=True):
        assert scores_by_tokens(cached_hypotheses) == pytest.approx(
            scores_by_tokens(expected), abs=1e-5
        )
        scores = [h.score for h in cached_hypotheses]
        assert scores == sorted(scores, reverse=True)


def scores_by_tokens(hypotheses):
    """Without their order, which rounding decides for nearly equal scores."""
    return {tuple(h.tokens): h.score for h in hypotheses}


@torch.no_grad()
def test_half_precision_scores_are_summed_in_single_precision():
    scorer = cached(build("transformer_tiny").bfloat16(), sources())
    (hypotheses, *_) = search(
        [scorer], [DecodingPrompt(5)] * 4, SPECIAL_TOKENS, SearchConfig(beam=2)
    )
    assert hypotheses[0].score == pytest.approx(
        sum(hypotheses[0].log_probabilities) / len(hypotheses[0].log_probabilities)
    )


@pytest.mark.parametrize("name", ["transformer_tiny", "dynamicconv_tiny", "transformer_lm_tiny"])
def test_hypothesis_scored_as_a_reference_has_the_same_score(name):
    models, inputs = [build(name)], None if "_lm" in name else sources()
    generated = generate(
        models,
        inputs,
        [DecodingPrompt(3 + n) for n in range(4)],
        SPECIAL_TOKENS,
        SearchConfig(beam=2),
    )
    references = [hypotheses[0].tokens for hypotheses in generated]
    for scored, (best, *_) in zip(
        score_references(models, inputs, references, 1, 1.0), generated, strict=True
    ):
        assert scored.tokens == best.tokens
        assert scored.score == pytest.approx(best.score, abs=1e-5)
        assert scored.log_probabilities == pytest.approx(best.log_probabilities, abs=1e-5)


def test_ensemble_scores_references_by_the_mean_of_the_probabilities():
    models = [build("transformer_tiny"), build("lightconv_tiny")]
    references = [[2, 3]] * 4
    one, two = (score_references([m], sources_of(), references, 1, 1.0) for m in models)
    both = score_references(models, sources_of(), references, 1, 1.0)
    expected = torch.tensor([h.log_probabilities for h in one]).exp()
    expected = (expected + torch.tensor([h.log_probabilities for h in two]).exp()) / 2
    got = torch.tensor([h.log_probabilities for h in both]).exp()
    torch.testing.assert_close(got, expected)


def sources_of():
    torch.manual_seed(3)
    return sources()


def test_alignments_exclude_padding_and_end_symbols():
    maps = compute_alignments(
        [build("transformer_tiny")], sources(), [[2, 3], [4], [], [5, 6, 7]], 1
    )
    assert [tuple(m.shape) for m in maps] == [(2, 6), (1, 2), (0, 4), (3, 0)]
    assert all((m.sum(1) < 1).all() for m in maps)  # the source's end has the rest
