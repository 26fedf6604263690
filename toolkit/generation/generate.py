"""Generate text for a batch of sources or prompts."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from toolkit.config.commands.generate import SearchConfig
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens
from toolkit.generation.search import search
from toolkit.generation.step_scorer import CachedScorer, EnsembleScorer
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs


@torch.no_grad()
def generate(
    models: Sequence[GenerativeModel],
    inputs: Inputs | None,
    prompts: Sequence[DecodingPrompt],
    special_tokens: SpecialTokens,
    c: SearchConfig,
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, best first; several models form an ensemble.

    `inputs` are the sources, None for language models.
    """
    scorers = [CachedScorer(model, inputs, len(prompts)) for model in models]
    scorer = scorers[0] if len(scorers) == 1 else EnsembleScorer(scorers)
    return search(scorer, prompts, special_tokens, c, models[0].token_embedding.weight.device)


def generate_best(
    model: GenerativeModel,
    inputs: Inputs,
    vocabulary: Vocabulary,
    *,
    beam: int = 1,
    lenpen: float = 1.0,
    max_length: int | Sequence[int] = 200,
) -> list[list[int]]:
    """The best hypothesis for each source, in order, without the end symbol.

    `vocabulary` is the target's; `max_length` limits the tokens of all, or of each.
    """
    limits = [max_length] * len(inputs.tokens) if isinstance(max_length, int) else max_length
    prompts = [
        DecodingPrompt(fit_length(model.max_positions, limit), min_length=1) for limit in limits
    ]
    c = SearchConfig(beam=beam, lenpen=lenpen)
    special_tokens = SpecialTokens.from_vocabulary(vocabulary)
    return [best.tokens for best, *_ in generate([model], inputs, prompts, special_tokens, c)]


def fit_length(max_positions: int | None, max_length: int, prompt: int = 0) -> int:
    """Tokens that fit after the start symbol and the prompt."""
    return max_length if max_positions is None else min(max_length, max_positions - 1 - prompt)
