import numpy as np
import pytest
from scipy import stats

from toolkit.data.samples.masking import (
    HashNoise,
    PositionMasking,
    draw_span_lengths,
    span_length_distribution,
)
from toolkit.data.samples.sequence_pairs import SentenceBatch

LENGTH = 64
RATE = 0.15


def masking(**options):
    paper = {
        "tokens_per_sample": LENGTH,
        "rate": RATE,
        "span_max": 6,
        "span_p": 0.2,
        "hidden_rate": 0.8,
        "shuffled_rate": 0.1,
    }
    return PositionMasking(**{**paper, "random_below": None, **options})


def sentences(lengths):
    """[CLS] a [SEP], padded to the longest."""
    lengths = np.array(lengths, np.int64)
    places = np.tile(np.arange(lengths.max()), (len(lengths), 1))
    inside = (places > 0) & (places < lengths[:, None] - 1)
    return SentenceBatch(np.where(inside, 5, 0), lengths, inside)


def noise(rows, seed=1):
    return HashNoise(seed, 1, np.arange(rows))


def runs(selected):
    """(row, places) of every merged run."""
    cut = np.flatnonzero((np.diff(selected.decision_ids) != 0) | (np.diff(selected.rows) != 0)) + 1
    pieces = np.split(selected.positions, cut)
    return list(zip(selected.rows[np.concatenate([[0], cut])], pieces, strict=True))


@pytest.fixture(scope="module")
def many():
    """Over 60,000 runs: how each is shown."""
    rows = 30_000
    visible, selected = masking().apply(sentences([LENGTH] * rows), noise(rows))
    return [(places, visible[row, places]) for row, places in runs(selected)]


@pytest.mark.parametrize(("longest", "shares"), [(3, (0.4098, 0.3279, 0.2623)), (6, (0.2711,))])
def test_run_lengths_follow_the_truncated_geometric_distribution(longest, shares):
    law = span_length_distribution(0.2, longest)
    assert law[: len(shares)] == pytest.approx(shares, abs=5e-5)
    lengths = draw_span_lengths(np.random.default_rng(0).random(200_000), 0.2, longest)
    counts = np.bincount(lengths, minlength=longest + 1)[1:]
    assert stats.chisquare(counts, 200_000 * law).pvalue > 0.001


@pytest.mark.slow
def test_runs_are_hidden_shuffled_or_kept_at_the_given_rates(many):
    kinds = [
        0 if (visible == -1).all() else 1 if (visible != places).any() else 2
        for places, visible in many
        if len(places) > 1
    ]
    assert len(many) > 60_000
    expected = len(kinds) * np.array([0.8, 0.1, 0.1])
    assert stats.chisquare(np.bincount(kinds), expected).pvalue > 0.001


@pytest.mark.slow
@pytest.mark.parametrize(("below", "highest"), [(None, LENGTH), (512, 512)])
def test_shuffled_run_of_one_gets_a_random_position(below, highest):
    rows = 20_000
    every = masking(hidden_rate=0.0, shuffled_rate=1.0, span_max=1, random_below=below)
    visible, selected = every.apply(sentences([LENGTH] * rows), noise(rows))
    drawn = np.concatenate(
        [visible[row, places] for row, places in runs(selected) if len(places) == 1]
    )
    counts = np.bincount(drawn, minlength=highest)
    assert len(counts) == highest and stats.chisquare(counts).pvalue > 0.001


def test_position_masking_keeps_to_its_budget_and_leaves_other_positions():
    lengths = [64, 3, 20, 5, 9]
    given = sentences(lengths)
    visible, selected = masking().apply(given, noise(5))
    budget = np.ceil(RATE * given.candidates.sum(1))
    assert np.bincount(selected.rows, minlength=5).tolist() == budget.tolist()
    assert given.candidates[selected.rows, selected.positions].all()
    others = np.ones(visible.shape, bool)
    others[selected.rows, selected.positions] = False
    assert (visible == np.arange(64))[others].all()
