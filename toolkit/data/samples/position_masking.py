"""Which positions are hidden from the model, and what it sees in their place (TACO, A.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from toolkit.common.positions import HIDDEN_POSITION
from toolkit.common.random_hash import seed_of
from toolkit.data.samples.masking import DECIDE, REPLACE, SPANS, Chosen, Context, Noise, span
from toolkit.data.samples.text_samples import Flags, Numbers, Sentences

POSITIONS = 0x706F73
"""Sets the draws for positions apart from those for tokens."""
ORDERS = 1 << 20
"""Draws for the order of shuffled runs begin here, beyond those of the spans."""
assert ORDERS > SPANS


class Runs(NamedTuple):
    """Chosen places, row by row, as runs of neighbours."""

    rows: Numbers
    places: Numbers
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

    def hide(self, sentences: Sentences, noise: Noise) -> tuple[Numbers, Chosen]:
        """Position ids as the model sees them, B x S, and the chosen places."""
        noise = Noise(seed_of(noise.seed, POSITIONS), noise.epoch, noise.ids)
        chosen = span(Context(sentences, sentences.candidates, noise, self))
        shown = np.tile(np.arange(sentences.tokens.shape[1]), (len(sentences.tokens), 1))
        draw = noise.at(DECIDE, chosen.rows, chosen.decisions)
        hidden = draw < self.hidden_rate
        shuffled = ~hidden & (draw < self.hidden_rate + self.shuffled_rate)
        shown[chosen.rows[hidden], chosen.places[hidden]] = HIDDEN_POSITION
        runs = runs_of(chosen, shuffled)
        shown[runs.rows, runs.places] = self.reordered(runs, sentences.lengths, noise)
        return shown, chosen

    def reordered(self, runs: Runs, lengths: Numbers, noise: Noise) -> Numbers:
        """A random order of each run that is not its own; a random position for a run of one."""
        alone = runs.sizes[runs.run] == 1
        below = lengths[runs.rows] if self.random_below is None else self.random_below
        anywhere = (noise.at(REPLACE, runs.rows, runs.places) * below).astype(np.int64)
        return np.where(alone, anywhere, permuted(runs, noise))


def runs_of(chosen: Chosen, wanted: Flags) -> Runs:
    """The runs that the wanted ones of the chosen places form."""
    rows, places, decisions = (part[wanted] for part in chosen)
    _, run, sizes = np.unique(
        np.stack([rows, decisions]), axis=1, return_inverse=True, return_counts=True
    )
    return Runs(rows, places, run.reshape(-1), sizes)


def permuted(runs: Runs, noise: Noise) -> Numbers:
    """Every run's places in an order drawn anew until it is not the identity.

    Uniform over the other orders; a run of one keeps its place.
    """
    order = runs.places.copy()
    open_ = runs.sizes[runs.run] > 1
    draw = ORDERS
    while open_.any():
        run, places = runs.run[open_], runs.places[open_]
        keys = noise.at(draw, runs.rows[open_], places)
        order[open_] = places[np.lexsort((keys, run))]
        moved = np.zeros(len(runs.sizes), bool)
        moved[run[order[open_] != places]] = True
        open_ &= ~moved[runs.run]
        draw += 1
    return order
