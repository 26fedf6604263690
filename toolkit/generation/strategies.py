"""Strategies that choose the next tokens: beam search, diverse beam search, sampling.

N sentences   W rows of each   G groups   K hypotheses of a group   C candidates of a group
V target vocabulary   R = N W rows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.random_hash import mix, uniform

Numbers = npt.NDArray[np.int64]
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
        one = self.scores.shape[1] == 1
        part = slice(0, 1) if one else slice(group * size, (group + 1) * size)
        return StepScores(self.scores[:, part], self.totals[:, group : group + 1])


Strategy = Callable[[StepScores, Numbers, int], Candidates]
"""Called with scores, the sentences' numbers and the number of tokens generated."""


def best_continuations(rows: StepScores, count: int, penalty: Tensor | None = None) -> Candidates:
    """The `count` most probable continuations of a group's hypotheses, over all tokens of each.

    `penalty` (N, V) is subtracted for the choice only; totals remain those of the model.
    """
    scores = rows.scores if penalty is None else rows.scores - penalty[:, None]
    sentences, width, words = scores.shape
    each = min(count, words)
    values, tokens = top_scores(scores.flatten(0, 1), each)
    totals = values.unflatten(0, (sentences, width)) + rows.totals[:, 0, :, None]  # (N, W, each)
    found, places = totals.flatten(1).topk(min(count, width * each))
    parents, tokens = places // each, tokens.view(sentences, -1).gather(1, places)
    if penalty is not None:
        found = found + penalty.gather(1, tokens)
    missing = (0, count - found.shape[1])
    pad = torch.nn.functional.pad
    return Candidates(
        pad(found, missing, value=-torch.inf)[:, None],
        pad(parents, missing)[:, None],
        pad(tokens, missing)[:, None],
    )


def top_scores(
    scores: Float[Tensor, "R V"], count: int
) -> tuple[Float[Tensor, "R C"], Int[Tensor, "R C"]]:
    """The largest scores of each row, and their indices.

    They lie in the chunks with the largest maxima, which are found in one pass;
    torch.topk first copies every number together with its index.
    """
    words = scores.shape[1]
    if words < SMALL_VOCABULARY or count * CHUNK * 4 > words:
        found = scores.topk(count)
        return found.values, found.indices
    chunks = words // CHUNK
    largest = scores[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)).amax(-1)
    begins = largest.topk(count).indices * CHUNK
    inside = torch.arange(CHUNK, device=scores.device)
    rest = torch.arange(chunks * CHUNK, words, device=scores.device).expand(len(scores), -1)
    places = torch.cat([(begins.unsqueeze(-1) + inside).flatten(1), rest], 1)
    values, found_at = scores.gather(1, places).topk(count)
    return values, places.gather(1, found_at)


class BeamSearch:
    """Beam search; with several groups, each avoids tokens that the previous ones chose here.

    argmax of log p(token) - strength x (hypotheses of previous groups with it) (Vijayakumar et
    al. 2018, section 4, with the Hamming distance).
    """

    def __init__(self, groups: int, size: int, strength: float) -> None:
        self.groups, self.count, self.strength = groups, 2 * size, strength
        self.size = size

    def __call__(self, rows: StepScores, sentences: Numbers, written: int) -> Candidates:
        if self.groups == 1:
            return best_continuations(rows, self.count)
        penalty = torch.zeros_like(rows.scores[:, 0], dtype=torch.float32)
        found: list[Candidates] = []
        for group in range(self.groups):
            part = best_continuations(
                rows.select_group(group), self.count, penalty if group else None
            )
            found.append(part)
            chosen = part.tokens[:, 0, : self.size]
            there = part.totals[:, 0, : self.size].isfinite().to(penalty.dtype)
            penalty.scatter_add_(1, chosen, self.strength * there)
        return Candidates(*(torch.cat(parts, 1) for parts in zip(*found, strict=True)))


class Sampler:
    """One token per row, sampled from softmax(scores / temperature), optionally truncated.

    The random number is a function of (seed, sentence, sample, position), not of the batch. Of
    the `topk` most probable (Fan et al. 2018), then of the fewest whose probability reaches `topp`
    (Holtzman et al. 2020).
    """

    def __init__(self, draws: int, seed: int, temperature: float, topk: int, topp: float) -> None:
        self.draws, self.seed, self.temperature = draws, seed, temperature
        self.topk, self.topp = topk, topp

    def __call__(self, rows: StepScores, sentences: Numbers, written: int) -> Candidates:
        number = uniform(mix(self.seed, sentences[:, None], np.arange(self.draws), written))
        values, tokens = self.top_candidates(rows.scores)  # (N, W, limit)
        shares = (values / self.temperature).softmax(-1)
        if self.topp < 1:
            shares = shares * (shares.cumsum(-1) - shares < self.topp)
        below = shares.cumsum(-1, dtype=torch.float64).expand(-1, self.draws, -1)
        wanted = torch.from_numpy(number).to(below.device)[..., None] * below[..., -1:]
        chosen = (below <= wanted).sum(-1, keepdim=True).clamp(max=below.shape[2] - 1)
        values, tokens = (part.expand(-1, self.draws, -1) for part in (values, tokens))
        totals = values.gather(-1, chosen) + rows.totals
        token = tokens.gather(-1, chosen)
        return Candidates(totals, torch.zeros_like(token), token)

    def top_candidates(
        self, scores: Float[Tensor, "N W V"]
    ) -> tuple[Float[Tensor, "N W L"], Int[Tensor, "N W L"]]:
        """The tokens to sample from, most probable first if truncated."""
        words = scores.shape[2]
        if self.topk == 0 and self.topp == 1:
            return scores, torch.arange(words, device=scores.device).expand(scores.shape)
        found = scores.topk(min(self.topk or words, words))
        return found.values, found.indices
