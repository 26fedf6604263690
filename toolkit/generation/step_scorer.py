"""Scores of the next token: a model with a cache, an ensemble, or a function of prefixes.

B rows   S new positions   V target vocabulary   M rows that continue
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs


@runtime_checkable
class StepScorer(Protocol):
    """Keeps the prefix of every row; at first there is one row per sentence."""

    def next_scores(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B V"]:
        """Scores of the token after these new ones: log-probabilities up to a constant."""

    def reorder(self, rows: Int[Tensor, " M"], beam: int) -> None:
        """Row m continues what was row rows[m]; the `beam` rows of a sentence are adjacent."""


class CachedScorer:
    """A model that reads only new tokens, and `inputs`, the sources, once; None without sources."""

    def __init__(self, model: GenerativeModel, inputs: Inputs | None, sentences: int) -> None:
        self.model = model
        self.encoded = None if inputs is None else model(inputs)
        self.padding = None if inputs is None else inputs.padding
        self.cache = model.cache(sentences)

    def next_scores(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B V"]:
        count, width = tokens.shape
        last = None if width == 1 else torch.arange(1, count + 1, device=tokens.device) * width - 1
        states = self.model.decode(tokens, self.encoded, self.padding, self.cache, last)
        self.encoded = self.padding = None
        return self.model.scores(states[:, 0] if last is None else states[0])

    def reorder(self, rows: Int[Tensor, " M"], beam: int) -> None:
        self.cache.reorder(rows, beam)


class EnsembleScorer:
    """log of the mean of the models' probabilities (an ensemble)."""

    def __init__(self, scorers: Sequence[StepScorer]) -> None:
        self.scorers = scorers

    def next_scores(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B V"]:
        first, *others = (
            to_log_probabilities(scorer.next_scores(tokens)) for scorer in self.scorers
        )
        for other in others:
            first = torch.logaddexp(first, other)
        return first - math.log(len(self.scorers))

    def reorder(self, rows: Int[Tensor, " M"], beam: int) -> None:
        for scorer in self.scorers:
            scorer.reorder(rows, beam)


def to_log_probabilities(scores: Float[Tensor, "B V"]) -> Float[Tensor, "B V"]:
    """Log-probabilities in fp32 or better."""
    return scores.log_softmax(-1, torch.promote_types(scores.dtype, torch.float32))


class PrefixScorer:
    """A function of whole prefixes, which start with the end symbol, without a cache."""

    def __init__(
        self, step: Callable[[Int[Tensor, "B T"], Int[Tensor, " B"]], Float[Tensor, "B V"]]
    ) -> None:
        """`step` gets the prefixes and the sentence index of each."""
        self.step = step
        self.prefixes: Tensor | None = None
        self.sentences: Tensor | None = None

    def next_scores(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B V"]:
        if self.prefixes is None or self.sentences is None:
            self.prefixes, self.sentences = tokens, torch.arange(len(tokens))
        else:
            self.prefixes = torch.cat([self.prefixes, tokens], 1)
        return self.step(self.prefixes, self.sentences)

    def reorder(self, rows: Int[Tensor, " M"], beam: int) -> None:
        assert self.prefixes is not None and self.sentences is not None, "nothing to reorder"
        self.prefixes, self.sentences = self.prefixes[rows], self.sentences[rows]
