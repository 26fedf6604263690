"""What models write for a batch of sources, or behind prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens
from toolkit.generation.search import search
from toolkit.generation.step_scorer import CachedScorer, EnsembleScorer, StepScorer


@torch.no_grad()
def generate(
    models: Sequence[Any],
    inputs: Any,
    starts: Sequence[DecodingPrompt],
    symbols: SpecialTokens,
    c: SearchConfig,
) -> list[list[Hypothesis]]:
    """For each sentence its hypotheses, best first; of several models, by the mean of what they
    hold probable. `inputs` are the sources, None for language models.
    """
    scorers = [make_scorer(model, inputs, len(starts)) for model in models]
    together = scorers[0] if len(scorers) == 1 else EnsembleScorer(scorers)
    return search(together, starts, symbols, c, models[0].token_embedding.weight.device)


def make_scorer(model: Any, inputs: Any, sentences: int) -> StepScorer:
    """Reads the source once."""
    encoded = None if inputs is None else model(inputs)
    return CachedScorer(model, encoded, None if inputs is None else inputs.padding, sentences)


def generate_best(
    model: Any,
    inputs: Any,
    vocabulary: Any,
    *,
    beam: int = 1,
    lenpen: float = 1.0,
    max_length: int | Sequence[int] = 200,
) -> list[list[int]]:
    """The best hypothesis for each source, in their order, without its end.

    `vocabulary` is the target's; `most` bounds the symbols of each.
    """
    bounds = [max_length] * len(inputs.tokens) if isinstance(max_length, int) else max_length
    starts = [
        DecodingPrompt(fit_length(model.max_positions, bound), min_length=1) for bound in bounds
    ]
    c = SearchConfig(beam=beam, lenpen=lenpen)
    found = generate([model], inputs, starts, SpecialTokens.from_vocabulary(vocabulary), c)
    return [hypotheses[0].tokens for hypotheses in found]


def fit_length(longest: int | None, most: int, prompt: int = 0) -> int:
    """Symbols for which there are places, behind the one before the first and the prompt."""
    return most if longest is None else min(most, longest - 1 - prompt)
