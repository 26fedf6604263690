"""What models write for a batch of sources, or behind prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.hypothesis import Hypothesis, Start, Symbols
from toolkit.generation.search import search
from toolkit.generation.step_scorer import Cached, Scorer, Together


@torch.no_grad()
def written(
    models: Sequence[Any], inputs: Any, starts: Sequence[Start], symbols: Symbols, c: SearchConfig
) -> list[list[Hypothesis]]:
    """For each sentence its hypotheses, best first; of several models, by the mean of what they
    hold probable. `inputs` are the sources, None for language models.
    """
    scorers = [scorer(model, inputs, len(starts)) for model in models]
    together = scorers[0] if len(scorers) == 1 else Together(scorers)
    return search(together, starts, symbols, c, models[0].words.weight.device)


def scorer(model: Any, inputs: Any, sentences: int) -> Scorer:
    """Reads the source once."""
    encoded = None if inputs is None else model.encode(inputs)
    return Cached(model, encoded, None if inputs is None else inputs.padding, sentences)


def best(
    model: Any,
    inputs: Any,
    vocabulary: Any,
    *,
    beam: int = 1,
    lenpen: float = 1.0,
    most: int | Sequence[int] = 200,
) -> list[list[int]]:
    """The best hypothesis for each source, in their order, without its end.

    `vocabulary` is the target's; `most` bounds the symbols of each.
    """
    bounds = [most] * len(inputs.tokens) if isinstance(most, int) else most
    starts = [Start(room(model.max_positions, bound), least=1) for bound in bounds]
    c = SearchConfig(beam=beam, lenpen=lenpen)
    found = written([model], inputs, starts, Symbols.of(vocabulary), c)
    return [hypotheses[0].tokens for hypotheses in found]


def room(longest: int | None, most: int, prompt: int = 0) -> int:
    """Symbols for which there are places, behind the one before the first and the prompt."""
    return most if longest is None else min(most, longest - 1 - prompt)
