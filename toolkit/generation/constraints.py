"""Decoding constraints: forbidden tokens get a score of -inf.

R rows   T tokens generated   V target vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.generation.hypothesis import DecodingPrompt, SpecialTokens

Numbers = npt.NDArray[np.int64]


class Constraints:
    """Length limits, prefixes and n-gram constraints of a batch of sentences."""

    def __init__(
        self, starts: Sequence[DecodingPrompt], symbols: SpecialTokens, ngram: int = 0
    ) -> None:
        self.symbols, self.ngram = symbols, ngram
        self.min_lengths = np.array([start.min_length for start in starts])
        self.max_lengths = np.array([start.max_length for start in starts])
        self.prefix_lengths = np.array([len(start.prefix) for start in starts])
        self.prefixes = np.full((len(starts), max(self.prefix_lengths, default=0)), symbols.eos)
        for row, start in zip(self.prefixes, starts, strict=True):
            row[: len(start.prefix)] = start.prefix
        assert len({len(start.prompt) for start in starts}) <= 1, (
            "prompts of a batch have one length"
        )
        self.prompts: Numbers = np.array([start.prompt for start in starts], np.int64)

    def apply(self, scores: Float[Tensor, "R V"], sentences: Numbers, written: Numbers) -> None:
        """In place; row r continues sentences[r] and has generated written[r]."""
        length, end = written.shape[1], self.symbols.eos
        last = np.flatnonzero(length >= self.max_lengths[sentences])
        forced = np.flatnonzero(length < self.prefix_lengths[sentences])
        only = [ForcedToken(scores, last, np.full(len(last), end))]
        if len(forced):
            only.append(ForcedToken(scores, forced, self.prefixes[sentences[forced], length]))
        for symbol in self.symbols.forbidden:
            scores[:, symbol] = -torch.inf
        early = np.flatnonzero(length < self.min_lengths[sentences])
        if len(early):
            scores[torch.from_numpy(early).to(scores.device), end] = -torch.inf
        if self.ngram and self.prompts.shape[1] + length >= self.ngram:
            seen = np.concatenate([self.prompts[sentences], written], 1)
            rows, again = find_repeats(seen, self.ngram)
            where = torch.from_numpy(np.stack([rows, again])).to(scores.device)
            scores[where[0], where[1]] = -torch.inf
        for one in only:
            one.apply(scores)


class ForcedToken:
    """Rows with only one allowed token, whatever else is forbidden."""

    def __init__(self, scores: Float[Tensor, "R V"], rows: Numbers, symbols: Numbers) -> None:
        self.some = len(rows) > 0
        if self.some:
            self.rows = torch.from_numpy(rows).to(scores.device)
            self.symbols = torch.from_numpy(symbols).to(scores.device)
            self.kept = scores[self.rows, self.symbols]

    def apply(self, scores: Float[Tensor, "R V"]) -> None:
        if self.some:
            scores[self.rows] = -torch.inf
            scores[self.rows, self.symbols] = self.kept


def find_repeats(written: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Rows, and tokens that would complete an n-gram of this size that the row already has."""
    windows = np.lib.stride_tricks.sliding_window_view(written, size, axis=1)  # (R, T-n+1, n)
    last = written[:, written.shape[1] - size + 1 :]
    found = (windows[..., :-1] == last[:, None]).all(-1)
    rows, places = np.nonzero(found)
    return rows, windows[rows, places, -1]
