"""Decoding token by token: greedy and beam search, diverse groups, sampling.

N sentences   G groups   K hypotheses of a group   C candidates of a group   R rows
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch

from toolkit.common.arrays import BoolArray, IntArray
from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.hypothesis import (
    BeamState,
    DecodingPrompt,
    Hypothesis,
    SpecialTokens,
    make_hypothesis,
)
from toolkit.generation.step_scorer import StepScorer, to_log_probabilities
from toolkit.generation.strategies import Constraints, sample_candidates, search_candidates


@torch.no_grad()
def search(
    scorers: Sequence[StepScorer],
    prompts: Sequence[DecodingPrompt],
    special_tokens: SpecialTokens,
    c: SearchConfig,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, best first, at most `beam`.

    Several scorers form an ensemble: the mean of their probabilities. Of 2 K candidates of a group,
    those among the first K that end are finished, and the first K others continue. A group with K
    finished ones stops, and a sentence without others leaves the batch (as in fairseq).
    """
    return BatchSearch(scorers, prompts, special_tokens, c, device or torch.device("cpu")).run()


class BatchSearch:
    """The state of one batch during the search."""

    def __init__(
        self,
        scorers: Sequence[StepScorer],
        prompts: Sequence[DecodingPrompt],
        special_tokens: SpecialTokens,
        c: SearchConfig,
        device: torch.device,
    ) -> None:
        self.scorers, self.c, self.device = scorers, c, device
        self.eos = special_tokens.eos
        self.numbers = np.array([prompt.number for prompt in prompts], np.int64)
        self.constraints = Constraints(prompts, special_tokens, c.no_repeat_ngram_size)
        self.groups = c.beam if c.samples else c.diverse_beam_groups
        self.size = c.beam // self.groups
        self.beams = BeamState.initial(len(prompts), self.groups)
        self.rows = len(prompts)
        """Rows of the scorer: one per sentence at first, then one per hypothesis."""
        self.finished: list[list[list[Hypothesis]]] = [
            [[] for _ in range(self.groups)] for _ in prompts
        ]

    def run(self) -> list[list[Hypothesis]]:
        first = np.full((len(self.finished), 1), self.eos)
        tokens = np.concatenate([first, self.constraints.prompt_tokens], 1)
        while len(self.beams.sentences):
            tokens = self.step(tokens)
        sentences = ([h for group in groups for h in group] for groups in self.finished)
        return [sort_by_score(hypotheses)[: self.c.beam] for hypotheses in sentences]

    def step(self, tokens: IntArray) -> IntArray:
        """Extend every hypothesis by one token; the tokens that the model reads next."""
        beams, width = self.beams, self.rows // len(self.beams.sentences)
        read = torch.from_numpy(tokens).to(self.device)
        each = [to_log_probabilities(it.next_scores(read)) for it in self.scorers]
        scores = reduce(torch.logaddexp, each) - math.log(len(each))
        generated = beams.tokens[:, :1] if width == 1 else beams.tokens
        self.constraints.apply(
            scores, beams.sentences.repeat(width), generated.reshape(self.rows, beams.length)
        )
        totals = torch.from_numpy(beams.current_totals).to(self.device, scores.dtype)
        scores, c = scores.unflatten(0, (-1, width)), self.c
        if c.samples:
            numbers = self.numbers[beams.sentences]
            candidates = sample_candidates(scores, totals, c, numbers, beams.length)
        else:
            candidates = search_candidates(scores, totals, self.size, c.diverse_beam_strength)
        best, parents, new_tokens = (it.cpu().numpy() for it in candidates)
        extended = beams.extend(parents, new_tokens, best.astype(np.float64))
        return self.advance(extended, parents, width)

    def advance(self, extended: BeamState, parents: IntArray, width: int) -> IntArray:
        """Collect finished hypotheses, drop finished sentences, and continue with the rest."""
        ended = extended.tokens[..., -1] == self.eos
        possible = np.isfinite(extended.current_totals)
        self.finish(extended, ended & possible)
        is_full = np.array(
            [[len(group) >= self.size for group in self.finished[n]] for n in extended.sentences]
        )
        stay = ((~ended & possible).any(-1) & ~is_full).any(-1)
        self.keep_unfinished(extended.sentences, stay)
        order = np.flatnonzero(stay)
        # the first K candidates that have not ended, in order; then others
        children = np.argsort(ended[order], axis=-1, kind="stable")[..., : self.size]
        unused = np.take_along_axis(ended[order], children, 2) | is_full[order][..., None]
        self.beams = extended.select(order, children, unused)
        self.reorder(order, np.take_along_axis(parents[order], children, 2), width)
        return self.beams.tokens[..., -1].reshape(-1, 1)

    def finish(self, extended: BeamState, ended: BoolArray) -> None:
        """Collect the candidates among the first K of a group that have ended; keep the K best."""
        changed: set[tuple[int, int]] = set()
        for n, g, k in np.argwhere(ended[..., : self.size]).tolist():
            tokens, totals = extended.tokens[n, g, k].tolist(), extended.totals[n, g, k].tolist()
            sentence = int(extended.sentences[n])
            self.finished[sentence][g].append(make_hypothesis(tokens[:-1], totals, self.c.lenpen))
            changed.add((sentence, g))
        for sentence, g in changed:
            self.finished[sentence][g] = sort_by_score(self.finished[sentence][g])[: self.size]

    def keep_unfinished(self, sentences: IntArray, stay: BoolArray) -> None:
        """If nothing can continue and nothing has ended, the current hypotheses are the result."""
        for n in np.flatnonzero(~stay).tolist():
            groups = self.finished[sentences[n]]
            if any(groups):
                continue
            for g, k in np.argwhere(np.isfinite(self.beams.current_totals[n])).tolist():
                tokens, totals = self.beams.tokens[n, g, k], self.beams.totals[n, g, k]
                groups[g].append(make_hypothesis(tokens.tolist(), totals.tolist(), self.c.lenpen))

    def reorder(self, order: IntArray, parents: IntArray, width: int) -> None:
        """Reorder the scorer's rows if they changed."""
        group_starts = self.size * np.arange(self.groups)[:, None] if width > 1 else 0
        rows = (order[:, None, None] * width + group_starts + parents).reshape(-1)
        previous, self.rows = self.rows, len(rows)
        if len(rows) and not np.array_equal(rows, np.arange(previous)):
            for scorer in self.scorers:
                scorer.reorder(torch.from_numpy(rows).to(self.device), self.groups * self.size)


def sort_by_score(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses by descending score; equal scores keep their order."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
