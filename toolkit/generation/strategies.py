"""Strategies that choose the next tokens: beam search, diverse beam search, sampling.

Constraints give forbidden tokens a score of -inf before they choose.

N sentences   W rows of each   G groups   K hypotheses of a group   C candidates of a group
V target vocabulary   R = N W rows   T tokens generated
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from toolkit.common.arrays import IntArray, mix, uniform
from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens


class Candidates(NamedTuple):
    """Continuations of the hypotheses of each group, best first; -inf if there are fewer."""

    totals: Float[Tensor, "N G C"]
    """Log-probability of the whole hypothesis."""
    parents: Int[Tensor, "N G C"]
    """Hypothesis of the group that each one continues."""
    tokens: Int[Tensor, "N G C"]


def best_continuations(
    scores: Float[Tensor, "N W V"],
    before: Float[Tensor, "N W"],
    count: int,
    penalty: Float[Tensor, "N V"] | None = None,
) -> Candidates:
    """The `count` most probable continuations of a group's hypotheses, over all tokens of each.

    `before` are their totals. `penalty` is subtracted for the choice only.
    """
    scores = scores if penalty is None else scores - penalty[:, None]
    per_row = min(count, scores.shape[2])
    values, tokens = scores.topk(per_row)  # (N, W, per row)
    extended = values + before[..., None]
    best, index = extended.flatten(1).topk(min(count, scores.shape[1] * per_row))
    parents, tokens = index // per_row, tokens.flatten(1).gather(1, index)
    if penalty is not None:
        best = best + penalty.gather(1, tokens)
    missing, pad = (0, count - best.shape[1]), torch.nn.functional.pad
    totals = pad(best, missing, value=-torch.inf)
    padded = totals, pad(parents, missing), pad(tokens, missing)
    return Candidates(*(it[:, None] for it in padded))


def search_candidates(
    scores: Float[Tensor, "N W V"], totals: Float[Tensor, "N G K"], size: int, strength: float
) -> Candidates:
    """Beam search; with several groups, each avoids tokens that the previous ones chose here:
    argmax of log p(token) - strength x (hypotheses of previous groups with it) (Vijayakumar et al.
    2018, section 4, Hamming). At the first token W and K are 1, then W is G K; a group keeps
    `size`.
    """
    groups, hypotheses = totals.shape[1:]
    if groups == 1:
        return best_continuations(scores, totals[:, 0], 2 * size)
    penalty = torch.zeros_like(scores[:, 0], dtype=torch.float32)
    found: list[Candidates] = []
    for group in range(groups):
        start = group * hypotheses if scores.shape[1] > 1 else 0
        rows = scores[:, start : start + hypotheses]
        candidates = best_continuations(
            rows, totals[:, group], 2 * size, penalty if group else None
        )
        found.append(candidates)
        possible = candidates.totals[:, 0, :size].isfinite().to(penalty.dtype)
        penalty.scatter_add_(1, candidates.tokens[:, 0, :size], strength * possible)
    return Candidates(*(torch.cat(parts, 1) for parts in zip(*found, strict=True)))


def sample_candidates(
    scores: Float[Tensor, "N W V"],
    totals: Float[Tensor, "N G 1"],
    c: SearchConfig,
    sentences: IntArray,
    length: int,
) -> Candidates:
    """One token per row, sampled from softmax(scores / temperature) of the `topk` most probable
    (Fan et al. 2018), then of the fewest whose probability reaches `topp` (Holtzman et al. 2020).

    The random number is a function of (seed, sentence, sample, position), not of the batch.
    """
    draws = uniform(mix(c.seed, sentences[:, None], np.arange(c.beam), length))
    values, size = scores, scores.shape[2]
    tokens = torch.arange(size, device=values.device).expand(values.shape)
    if c.sampling_topk or c.sampling_topp < 1:  # then the most probable come first
        values, tokens = values.topk(min(c.sampling_topk or size, size))  # (N, W, L)
    probabilities = (values / c.temperature).softmax(-1)
    if c.sampling_topp < 1:
        is_in_nucleus = probabilities.cumsum(-1) - probabilities < c.sampling_topp
        probabilities = probabilities * is_in_nucleus
    cumulative = probabilities.cumsum(-1, dtype=torch.float64).expand(-1, c.beam, -1)
    thresholds = torch.from_numpy(draws).to(cumulative.device)[..., None] * cumulative[..., -1:]
    index = (cumulative <= thresholds).sum(-1, keepdim=True).clamp(max=cumulative.shape[2] - 1)
    values, tokens = (part.expand(-1, c.beam, -1) for part in (values, tokens))
    token = tokens.gather(-1, index)
    return Candidates(values.gather(-1, index) + totals, torch.zeros_like(token), token)


class Constraints:
    """Length limits, prefixes and n-gram constraints of a batch of sentences."""

    def __init__(
        self, prompts: Sequence[DecodingPrompt], special_tokens: SpecialTokens, ngram_size: int = 0
    ) -> None:
        self.special_tokens, self.ngram_size = special_tokens, ngram_size
        self.min_lengths = np.array([prompt.min_length for prompt in prompts])
        self.max_lengths = np.array([prompt.max_length for prompt in prompts])
        self.prefix_lengths = np.array([len(prompt.prefix) for prompt in prompts])
        width = max(self.prefix_lengths, default=0)
        self.prefixes = np.full((len(prompts), width), special_tokens.eos)
        for row, prompt in zip(self.prefixes, prompts, strict=True):
            row[: len(prompt.prefix)] = prompt.prefix
        assert len({len(prompt.prompt) for prompt in prompts}) <= 1, (
            "prompts of a batch have one length"
        )
        self.prompt_tokens: IntArray = np.array([prompt.prompt for prompt in prompts], np.int64)

    def apply(self, scores: Float[Tensor, "R V"], sentences: IntArray, generated: IntArray) -> None:
        """In place; row r continues sentences[r] and has generated the tokens generated[r]."""
        length, eos = generated.shape[1], self.special_tokens.eos
        # rows with only one allowed token, whatever else is forbidden, and these tokens
        has_prefix = length < self.prefix_lengths[sentences]
        forced_rows = np.flatnonzero(has_prefix | (length >= self.max_lengths[sentences]))
        forced_tokens = np.full(len(forced_rows), eos)
        if has_prefix.any():
            forced_tokens[has_prefix[forced_rows]] = self.prefixes[sentences[has_prefix], length]
        if len(forced_rows):
            rows = torch.from_numpy(forced_rows).to(scores.device)
            tokens = torch.from_numpy(forced_tokens).to(scores.device)
            forced_scores = scores[rows, tokens]
        for token in self.special_tokens.forbidden:
            scores[:, token] = -torch.inf
        too_short = np.flatnonzero(length < self.min_lengths[sentences])
        if len(too_short):
            scores[torch.from_numpy(too_short).to(scores.device), eos] = -torch.inf
        if self.ngram_size and self.prompt_tokens.shape[1] + length >= self.ngram_size:
            previous = np.concatenate([self.prompt_tokens[sentences], generated], 1)
            repeats = np.stack(find_repeats(previous, self.ngram_size))
            index = torch.from_numpy(repeats).to(scores.device)
            scores[index[0], index[1]] = -torch.inf
        if len(forced_rows):
            scores[rows] = -torch.inf
            scores[rows, tokens] = forced_scores


def find_repeats(tokens: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Rows, and tokens that would complete an n-gram of this size that the row already has."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=1)  # (R, T-n+1, n)
    last = tokens[:, tokens.shape[1] - size + 1 :]
    is_repeated = (windows[..., :-1] == last[:, None]).all(-1)
    rows, starts = np.nonzero(is_repeated)
    return rows, windows[rows, starts, -1]
