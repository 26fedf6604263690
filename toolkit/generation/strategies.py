"""Strategies that choose the next tokens: beam search, diverse beam search, sampling.

N sentences   W rows of each   G groups   K hypotheses of a group   C candidates of a group
V target vocabulary   R = N W rows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray, mix, uniform

CHUNK = 64
"""Scores per chunk, whose maximum is compared first in large vocabularies."""
SMALL_VOCABULARY = 4096
"""Vocabulary size up to which torch.topk is used directly."""


class Candidates(NamedTuple):
    """Continuations of the hypotheses of each group, best first; -inf if there are fewer."""

    totals: Float[Tensor, "N G C"]
    """Log-probability of the whole hypothesis."""
    parents: Int[Tensor, "N G C"]
    """Hypothesis of the group that each one continues."""
    tokens: Int[Tensor, "N G C"]


class StepScores(NamedTuple):
    """The model's scores of the next tokens."""

    scores: Float[Tensor, "N W V"]
    """Log-probabilities; -inf for forbidden tokens, without renormalization."""
    totals: Float[Tensor, "N G K"]
    """Log-probabilities of the hypotheses; W = G K, or 1 at the first token, where K is 1."""

    def select_group(self, group: int) -> StepScores:
        size = self.totals.shape[2]
        is_first = self.scores.shape[1] == 1
        rows = slice(0, 1) if is_first else slice(group * size, (group + 1) * size)
        return StepScores(self.scores[:, rows], self.totals[:, group : group + 1])


Strategy = Callable[[StepScores, IntArray, int], Candidates]
"""Called with scores, the sentences' numbers and the number of tokens generated."""


def best_continuations(step: StepScores, count: int, penalty: Tensor | None = None) -> Candidates:
    """The `count` most probable continuations of a group's hypotheses, over all tokens of each.

    `penalty` (N, V) is subtracted for the choice only; totals remain those of the model.
    """
    scores = step.scores if penalty is None else step.scores - penalty[:, None]
    sentences, width, vocabulary_size = scores.shape
    per_row = min(count, vocabulary_size)
    values, tokens = top_scores(scores.flatten(0, 1), per_row)
    totals = values.unflatten(0, (sentences, width)) + step.totals[:, 0, :, None]  # (N, W, per row)
    best, index = totals.flatten(1).topk(min(count, width * per_row))
    parents, tokens = index // per_row, tokens.view(sentences, -1).gather(1, index)
    if penalty is not None:
        best = best + penalty.gather(1, tokens)
    missing = (0, count - best.shape[1])
    pad = torch.nn.functional.pad
    return Candidates(
        pad(best, missing, value=-torch.inf)[:, None],
        pad(parents, missing)[:, None],
        pad(tokens, missing)[:, None],
    )


def top_scores(
    scores: Float[Tensor, "R V"], count: int
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The largest scores of each row, and their indices.

    They lie in the chunks with the largest maxima, computed in one pass; torch.topk first copies
    every number together with its index.
    """
    size = scores.shape[1]
    if size < SMALL_VOCABULARY or count * CHUNK * 4 > size:
        best = scores.topk(count)
        return best.values, best.indices
    chunks = size // CHUNK
    maxima = scores[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)).amax(-1)
    starts = maxima.topk(count).indices * CHUNK
    inside = torch.arange(CHUNK, device=scores.device)
    rest = torch.arange(chunks * CHUNK, size, device=scores.device).expand(len(scores), -1)
    indices = torch.cat([(starts.unsqueeze(-1) + inside).flatten(1), rest], 1)
    values, best_of = scores.gather(1, indices).topk(count)
    return values, indices.gather(1, best_of)


class BeamSearch:
    """Beam search; with several groups, each avoids tokens that the previous ones chose here.

    argmax of log p(token) - strength x (hypotheses of previous groups with it) (Vijayakumar et
    al. 2018, section 4, with the Hamming distance).
    """

    def __init__(self, groups: int, size: int, strength: float) -> None:
        self.groups, self.size, self.strength = groups, size, strength

    def __call__(self, step: StepScores, sentences: IntArray, length: int) -> Candidates:
        if self.groups == 1:
            return best_continuations(step, 2 * self.size)
        penalty = torch.zeros_like(step.scores[:, 0], dtype=torch.float32)
        groups: list[Candidates] = []
        for group in range(self.groups):
            candidates = best_continuations(
                step.select_group(group), 2 * self.size, penalty if group else None
            )
            groups.append(candidates)
            tokens = candidates.tokens[:, 0, : self.size]
            possible = candidates.totals[:, 0, : self.size].isfinite().to(penalty.dtype)
            penalty.scatter_add_(1, tokens, self.strength * possible)
        return Candidates(*(torch.cat(parts, 1) for parts in zip(*groups, strict=True)))


class Sampler:
    """One token per row, sampled from softmax(scores / temperature), optionally truncated.

    The random number is a function of (seed, sentence, sample, position), not of the batch. Of
    the `topk` most probable (Fan et al. 2018), then of the fewest whose probability reaches `topp`
    (Holtzman et al. 2020).
    """

    def __init__(self, draws: int, seed: int, temperature: float, topk: int, topp: float) -> None:
        self.draws, self.seed, self.temperature = draws, seed, temperature
        self.topk, self.topp = topk, topp

    def __call__(self, step: StepScores, sentences: IntArray, length: int) -> Candidates:
        draws = uniform(mix(self.seed, sentences[:, None], np.arange(self.draws), length))
        values, tokens = self.top_candidates(step.scores)  # (N, W, L)
        probabilities = (values / self.temperature).softmax(-1)
        if self.topp < 1:
            is_in_nucleus = probabilities.cumsum(-1) - probabilities < self.topp
            probabilities = probabilities * is_in_nucleus
        cumulative = probabilities.cumsum(-1, dtype=torch.float64).expand(-1, self.draws, -1)
        thresholds = torch.from_numpy(draws).to(cumulative.device)[..., None] * cumulative[..., -1:]
        index = (cumulative <= thresholds).sum(-1, keepdim=True).clamp(max=cumulative.shape[2] - 1)
        values, tokens = (part.expand(-1, self.draws, -1) for part in (values, tokens))
        totals = values.gather(-1, index) + step.totals
        token = tokens.gather(-1, index)
        return Candidates(totals, torch.zeros_like(token), token)

    def top_candidates(
        self, scores: Float[Tensor, "N W V"]
    ) -> tuple[Float[Tensor, "N W L"], Int[Tensor, "N W L"]]:
        """The tokens to sample from, most probable first if truncated."""
        size = scores.shape[2]
        if self.topk == 0 and self.topp == 1:
            return scores, torch.arange(size, device=scores.device).expand(scores.shape)
        best = scores.topk(min(self.topk or size, size))
        return best.values, best.indices
