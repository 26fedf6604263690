import pytest
import torch

from tests.models.test_encoder_decoder import MODELS, NAMES, build
from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens
from toolkit.generation.search import search
from toolkit.generation.step_scorer import CachedScorer, PrefixScorer
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


@pytest.mark.parametrize(("name", "changes"), MODELS, ids=NAMES)
@torch.no_grad()
def test_cached_search_equals_the_search_with_whole_prefixes(name, changes):
    model = build(name, changes)
    model.target_embedding.weight.data[1] *= 3  # ends now and then
    inputs = None if model.decoder_only else sources()
    prompt = (3, 4) if model.decoder_only else ()
    prompts = [DecodingPrompt(5 + n, prompt=prompt) for n in range(4)]
    got, want = (
        search(scorer(model, inputs), prompts, SPECIAL_TOKENS, SearchConfig(beam=3))
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
    (hypotheses, *_) = search(scorer, [DecodingPrompt(5)] * 4, SPECIAL_TOKENS, SearchConfig(beam=2))
    assert hypotheses[0].score == pytest.approx(
        sum(hypotheses[0].log_probabilities) / len(hypotheses[0].log_probabilities)
    )
