import pytest
import torch

from tests.generation.test_step_scorer import SPECIAL_TOKENS, sources
from tests.models.test_encoder_decoder import build
from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.generate import generate
from toolkit.generation.hypothesis import DecodingPrompt
from toolkit.generation.step_scorer import compute_alignments, score_references


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
