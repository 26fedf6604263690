"""Decoding constraints: forbidden tokens get a score of -inf.

R rows   T tokens generated   V target vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.arrays import IntArray
from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens


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
        forced_rows, forced_tokens = self.find_forced(sentences, length)
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

    def find_forced(self, sentences: IntArray, length: int) -> tuple[IntArray, IntArray]:
        """Rows with only one allowed token, whatever else is forbidden; and these tokens."""
        has_prefix = length < self.prefix_lengths[sentences]
        rows = np.flatnonzero(has_prefix | (length >= self.max_lengths[sentences]))
        tokens = np.full(len(rows), self.special_tokens.eos)
        if has_prefix.any():
            tokens[has_prefix[rows]] = self.prefixes[sentences[has_prefix], length]
        return rows, tokens


def find_repeats(tokens: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Rows, and tokens that would complete an n-gram of this size that the row already has."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=1)  # (R, T-n+1, n)
    last = tokens[:, tokens.shape[1] - size + 1 :]
    is_repeated = (windows[..., :-1] == last[:, None]).all(-1)
    rows, starts = np.nonzero(is_repeated)
    return rows, windows[rows, starts, -1]
