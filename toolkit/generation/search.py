"""Decoding token by token: greedy and beam search, diverse groups, sampling.

N sentences   G groups   K hypotheses of a group   C candidates of a group   R rows
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from toolkit.config.commands.generate import SearchConfig
from toolkit.generation.beam_state import (
    BeamState,
    Flags,
    Numbers,
    compact_order,
    first_matches,
    order_in_place,
)
from toolkit.generation.constraints import Constraints
from toolkit.generation.hypothesis import DecodingPrompt, Hypothesis, SpecialTokens, make_hypothesis
from toolkit.generation.step_scorer import StepScorer, to_log_probabilities
from toolkit.generation.strategies import BeamSearch, Sampler, StepScores, Strategy


@torch.no_grad()
def search(
    scorer: StepScorer,
    starts: Sequence[DecodingPrompt],
    symbols: SpecialTokens,
    c: SearchConfig,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The finished hypotheses of each sentence, best first, at most `beam`.

    Of 2 K candidates of a group those among the first K that end are finished, the first K others
    go on; a group with K finished ones stops, and a sentence whose groups have stopped leaves the
    batch (as in fairseq). With 1 hypothesis this is greedy search.
    """
    return BatchSearch(scorer, starts, symbols, c, device or torch.device("cpu")).run()


class BatchSearch:
    """The state of one batch during the search."""

    def __init__(
        self,
        scorer: StepScorer,
        starts: Sequence[DecodingPrompt],
        symbols: SpecialTokens,
        c: SearchConfig,
        device: torch.device,
    ) -> None:
        self.scorer, self.symbols, self.c, self.device = scorer, symbols, c, device
        self.numbers = np.array([start.number for start in starts], np.int64)
        self.constraints = Constraints(starts, symbols, c.no_repeat_ngram_size)
        self.groups = c.beam if c.sampling else c.diverse_beam_groups
        self.size = c.beam // self.groups
        self.choose = make_strategy(c, self.size)
        self.beams = BeamState.initial(len(starts), self.groups)
        self.rows = len(starts)
        self.finished: list[list[list[Hypothesis]]]
        self.finished = [[[] for _ in range(self.groups)] for _ in starts]

    def run(self) -> list[list[Hypothesis]]:
        first_symbol = np.full((len(self.finished), 1), self.symbols.eos)
        tokens = np.concatenate([first_symbol, self.constraints.prompts], 1)
        while len(self.beams.sentences):
            tokens = self.step(tokens)
        together = ([h for group in groups for h in group] for groups in self.finished)
        return [sort_by_score(found)[: self.c.beam] for found in together]

    def step(self, tokens: Numbers) -> Numbers:
        """Extend every hypothesis by one token; the tokens that the model reads next."""
        beams, wide = self.beams, self.rows // len(self.beams.sentences)
        scores = to_log_probabilities(
            self.scorer.next_scores(torch.from_numpy(tokens).to(self.device))
        )
        written = beams.tokens[:, :1] if wide == 1 else beams.tokens
        self.constraints.apply(
            scores, beams.sentences.repeat(wide), written.reshape(self.rows, beams.length)
        )
        totals = torch.from_numpy(beams.current_totals).to(self.device, scores.dtype)
        rows = StepScores(scores.unflatten(0, (-1, wide)), totals)
        found = self.choose(rows, self.numbers[beams.sentences], beams.length)
        parents, symbols = found.parents.cpu().numpy(), found.tokens.cpu().numpy()
        new = beams.extend(parents, symbols, found.totals.double().cpu().numpy())
        return self.advance(new, parents, wide)

    def advance(self, new: BeamState, parents: Numbers, wide: int) -> Numbers:
        """Collect finished hypotheses, drop finished sentences, and continue with the rest."""
        ended = new.tokens[..., -1] == self.symbols.eos
        there = np.isfinite(new.current_totals)
        self.finish(new, ended & there)
        full = np.array([[len(g) >= self.size for g in self.finished[n]] for n in new.sentences])
        stay = ((~ended & there).any(-1) & ~full).any(-1)
        self.keep_unfinished(new.sentences, stay)
        order = compact_order(stay)
        going = first_matches(~ended, self.size)[order]
        own = np.take_along_axis(parents[order], going, 2)
        going = np.take_along_axis(going, order_in_place(own), 2)
        lost = np.take_along_axis(ended[order], going, 2) | full[order][..., None]
        self.beams = new.select_sentences(order).select_candidates(going, lost)
        self.reorder(order, np.take_along_axis(parents[order], going, 2), wide)
        return self.beams.tokens[..., -1].reshape(-1, 1)

    def finish(self, new: BeamState, ended: Flags) -> None:
        """Collect the candidates among the first K of a group that have ended; keep the K best."""
        touched: set[tuple[int, int]] = set()
        for n, g, k in np.argwhere(ended[..., : self.size]).tolist():
            tokens, totals = new.tokens[n, g, k].tolist(), new.totals[n, g, k].tolist()
            sentence = int(new.sentences[n])
            self.finished[sentence][g].append(make_hypothesis(tokens[:-1], totals, self.c.lenpen))
            touched.add((sentence, g))
        for sentence, g in touched:
            self.finished[sentence][g] = sort_by_score(self.finished[sentence][g])[: self.size]

    def keep_unfinished(self, sentences: Numbers, stay: Flags) -> None:
        """If nothing can continue and nothing has ended, the current hypotheses are the result."""
        for n in np.flatnonzero(~stay).tolist():
            groups = self.finished[sentences[n]]
            if any(groups):
                continue
            for g, k in np.argwhere(np.isfinite(self.beams.current_totals[n])).tolist():
                tokens, totals = self.beams.tokens[n, g, k], self.beams.totals[n, g, k]
                groups[g].append(make_hypothesis(tokens.tolist(), totals.tolist(), self.c.lenpen))

    def reorder(self, order: Numbers, parents: Numbers, wide: int) -> None:
        """Reorder the scorer's rows if they changed."""
        group = self.size * np.arange(self.groups)[:, None] if wide > 1 else 0
        rows = (order[:, None, None] * wide + group + parents).reshape(-1)
        before, self.rows = self.rows, len(rows)
        if len(rows) and not np.array_equal(rows, np.arange(before)):
            self.scorer.reorder(torch.from_numpy(rows).to(self.device), self.groups * self.size)


def make_strategy(c: SearchConfig, size: int) -> Strategy:
    if c.sampling:
        return Sampler(c.beam, c.seed, c.temperature, c.sampling_topk, c.sampling_topp)
    return BeamSearch(c.diverse_beam_groups, size, c.diverse_beam_strength)


def sort_by_score(found: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
