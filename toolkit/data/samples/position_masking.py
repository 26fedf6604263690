"""Masking of positions: which are hidden or shuffled, and what the model sees (TACO, A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toolkit.common.arrays import HIDDEN_POSITION, BoolArray, IntArray, derive_seed
from toolkit.data.samples.masking import (
    DECIDE,
    REPLACE,
    SPANS,
    HashNoise,
    MaskedPositions,
    MaskingContext,
    span,
)
from toolkit.data.samples.text_samples import SentenceBatch

POSITIONS = 0x706F73
"""Separates the random stream of positions from that of tokens."""
ORDERS = 1 << 20
"""Draws for the order of shuffled runs start here, after those of the spans."""
assert ORDERS > SPANS


class PositionRuns(NamedTuple):
    """Selected positions, row by row, as runs of neighbors."""

    rows: IntArray
    positions: IntArray
    run: IntArray
    """Number of the run that each position belongs to, from 0."""
    sizes: IntArray
    """Positions per run."""


@dataclass(frozen=True, kw_only=True)
class PositionMasking:
    """Runs of positions until ceil(rate n) are selected, as in SpanBERT, without word boundaries.

    Runs that touch are merged. Then a fraction `hidden_rate` of them is hidden, `shuffled_rate`
    put in another order, and the rest left as they are; all of them are to be predicted.
    """

    tokens_per_sample: int
    rate: float
    span_max: int
    span_p: float
    hidden_rate: float
    shuffled_rate: float
    random_below: int | None
    """A shuffled run of one gets a random position below this; None: one of its sentence."""

    def apply(self, sentences: SentenceBatch, noise: HashNoise) -> tuple[IntArray, MaskedPositions]:
        """Position ids as the model sees them, B x S, and the selected positions."""
        noise = HashNoise(derive_seed(noise.seed, POSITIONS), noise.epoch, noise.ids)
        selected = span(MaskingContext(sentences, sentences.candidates, noise, self))
        visible = np.tile(np.arange(sentences.tokens.shape[1]), (len(sentences.tokens), 1))
        draw = noise.at(DECIDE, selected.rows, selected.decision_ids)
        hidden = draw < self.hidden_rate
        shuffled = ~hidden & (draw < self.hidden_rate + self.shuffled_rate)
        visible[selected.rows[hidden], selected.positions[hidden]] = HIDDEN_POSITION
        runs = group_into_runs(selected, shuffled)
        visible[runs.rows, runs.positions] = self._shuffle(runs, sentences.lengths, noise)
        return visible, selected

    def _shuffle(self, runs: PositionRuns, lengths: IntArray, noise: HashNoise) -> IntArray:
        """Another order for each run, and a random position for a run of one."""
        alone = runs.sizes[runs.run] == 1
        below = lengths[runs.rows] if self.random_below is None else self.random_below
        anywhere = (noise.at(REPLACE, runs.rows, runs.positions) * below).astype(np.int64)
        return np.where(alone, anywhere, shuffle_runs(runs, noise))


def group_into_runs(selected: MaskedPositions, chosen: BoolArray) -> PositionRuns:
    """The runs that the chosen ones of the selected positions form."""
    rows, positions, decision_ids = (part[chosen] for part in selected)
    _, run, sizes = np.unique(
        np.stack([rows, decision_ids]), axis=1, return_inverse=True, return_counts=True
    )
    return PositionRuns(rows, positions, run.reshape(-1), sizes)


def shuffle_runs(runs: PositionRuns, noise: HashNoise) -> IntArray:
    """Each run's positions in an order that is drawn again until it is not the identity.

    Uniform over the other orders; a run of one keeps its position.
    """
    order = runs.positions.copy()
    unchanged = runs.sizes[runs.run] > 1
    draw = ORDERS
    while unchanged.any():
        run, positions = runs.run[unchanged], runs.positions[unchanged]
        keys = noise.at(draw, runs.rows[unchanged], positions)
        order[unchanged] = positions[np.lexsort((keys, run))]
        moved = np.zeros(len(runs.sizes), bool)
        moved[run[order[unchanged] != positions]] = True
        unchanged &= ~moved[runs.run]
        draw += 1
    return order
