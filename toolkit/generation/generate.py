"""Generate text for a batch of sources or prompts."""

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
    """The hypotheses of each sentence, best first; several models form an ensemble. `inputs` are
    the sources, None for language models.
    """
    scorers = [make_scorer(model, inputs, len(starts)) for model in models]
    together = scorers[0] if len(scorers) == 1 else EnsembleScorer(scorers)
    return search(together, starts, symbols, c, models[0].token_embedding.weight.device)


def make_scorer(model: Any, inputs: Any, sentences: int) -> StepScorer:
    """A scorer that reads the source once."""
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
    """The best hypothesis for each source, in order, without the end symbol.

    `vocabulary` is the target's; `most` limits the tokens of each.
    """
    bounds = [max_length] * len(inputs.tokens) if isinstance(max_length, int) else max_length
    starts = [
        DecodingPrompt(fit_length(model.max_positions, bound), min_length=1) for bound in bounds
    ]
    c = SearchConfig(beam=beam, lenpen=lenpen)
    found = generate([model], inputs, starts, SpecialTokens.from_vocabulary(vocabulary), c)
    return [hypotheses[0].tokens for hypotheses in found]


def fit_length(longest: int | None, most: int, prompt: int = 0) -> int:
    """Tokens that fit after the start symbol and the prompt."""
    return most if longest is None else min(most, longest - 1 - prompt)
