"""Which positions are hidden from the model, and what it sees in their place (TACO, A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toolkit.common.positions import HIDDEN_POSITION
from toolkit.common.random_hash import derive_seed
from toolkit.data.samples.masking import (
    DECIDE,
    REPLACE,
    SPANS,
    HashNoise,
    MaskedPositions,
    MaskingContext,
    span,
)
from toolkit.data.samples.text_samples import Flags, Numbers, SentenceBatch

POSITIONS = 0x706F73
"""Sets the draws for positions apart from those for tokens."""
ORDERS = 1 << 20
"""Draws for the order of shuffled runs begin here, beyond those of the spans."""
assert ORDERS > SPANS


class PositionRuns(NamedTuple):
    """Chosen places, row by row, as runs of neighbors."""

    rows: Numbers
    positions: Numbers
    run: Numbers
    """Number of the run that each place belongs to, 0 upwards."""
    sizes: Numbers
    """Places of each run."""


@dataclass(frozen=True, kw_only=True)
class PositionMasking:
    """Runs of positions until ceil(rate n) are chosen, by SpanBERT's law without word boundaries.

    Of the runs, after those that touch are merged, `hidden_rate` are hidden, `shuffled_rate` put in
    another order, and the rest shown as they are; all of them are to be predicted.
    """

    tokens_per_sample: int
    rate: float
    span_max: int
    span_p: float
    hidden_rate: float
    shuffled_rate: float
    random_below: int | None
    """A shuffled run of one position gets a random one below this; None: one of its sentence's."""

    def apply(self, sentences: SentenceBatch, noise: HashNoise) -> tuple[Numbers, MaskedPositions]:
        """Position ids as the model sees them, B x S, and the chosen places."""
        noise = HashNoise(derive_seed(noise.seed, POSITIONS), noise.epoch, noise.ids)
        chosen = span(MaskingContext(sentences, sentences.candidates, noise, self))
        shown = np.tile(np.arange(sentences.tokens.shape[1]), (len(sentences.tokens), 1))
        draw = noise.at(DECIDE, chosen.rows, chosen.decision_ids)
        hidden = draw < self.hidden_rate
        shuffled = ~hidden & (draw < self.hidden_rate + self.shuffled_rate)
        shown[chosen.rows[hidden], chosen.positions[hidden]] = HIDDEN_POSITION
        runs = group_into_runs(chosen, shuffled)
        shown[runs.rows, runs.positions] = self.shuffle_or_draw(runs, sentences.lengths, noise)
        return shown, chosen

    def shuffle_or_draw(self, runs: PositionRuns, lengths: Numbers, noise: HashNoise) -> Numbers:
        """A random order of each run that is not its own; a random position for a run of one."""
        alone = runs.sizes[runs.run] == 1
        below = lengths[runs.rows] if self.random_below is None else self.random_below
        anywhere = (noise.at(REPLACE, runs.rows, runs.positions) * below).astype(np.int64)
        return np.where(alone, anywhere, shuffle_runs(runs, noise))


def group_into_runs(chosen: MaskedPositions, wanted: Flags) -> PositionRuns:
    """The runs that the wanted ones of the chosen places form."""
    rows, places, decisions = (part[wanted] for part in chosen)
    _, run, sizes = np.unique(
        np.stack([rows, decisions]), axis=1, return_inverse=True, return_counts=True
    )
    return PositionRuns(rows, places, run.reshape(-1), sizes)


def shuffle_runs(runs: PositionRuns, noise: HashNoise) -> Numbers:
    """Every run's places in an order drawn anew until it is not the identity.

    Uniform over the other orders; a run of one keeps its place.
    """
    order = runs.positions.copy()
    open_ = runs.sizes[runs.run] > 1
    draw = ORDERS
    while open_.any():
        run, places = runs.run[open_], runs.positions[open_]
        keys = noise.at(draw, runs.rows[open_], places)
        order[open_] = places[np.lexsort((keys, run))]
        moved = np.zeros(len(runs.sizes), bool)
        moved[run[order[open_] != places]] = True
        open_ &= ~moved[runs.run]
        draw += 1
    return order
