from pathlib import Path

import pytest

from toolkit.analysis.plots.curve import Curve, band_edges, compute_curve, smooth
from toolkit.metrics.seed_summary import summarize
from toolkit.reporting.runs import LoggedRun

FOUND = Curve([1, 2], [summarize([1.0, 3.0]), summarize([5.0, 5.0])], 2)


def run(losses):
    train = [{"event": "train", "update": u, "loss": loss} for u, loss in losses.items()]
    valid = [{**r, "event": "valid", "subset": "valid", "loss": r["loss"] - 1} for r in train]
    return LoggedRun(Path("run"), [*train, {"event": "save", "update": 1}, *valid], {})


def test_compute_curve_summarizes_common_updates():
    found = compute_curve([run({1: 4.0, 2: 3.0, 3: 2.0}), run({1: 6.0, 2: 5.0})], "valid", "loss")
    assert (found.updates, found.runs) == ([1, 2], 2)
    assert [(s.mean, s.deviation) for s in found.summaries] == [(4.0, 2.0**0.5), (3.0, 2.0**0.5)]


def test_compute_curve_skips_non_finite_values():
    assert compute_curve([run({1: 4.0, 2: float("nan")})], "train", "loss").updates == [1]


def test_smooth_is_an_unbiased_exponential_moving_average():
    assert smooth([4.0, 1.0, 1.0], 0.5) == pytest.approx([4.0, 3 / 1.5, 2.5 / 1.75])
    assert smooth([4.0, 1.0], 0.0) == [4.0, 1.0]


@pytest.mark.parametrize(
    ("band", "expected"),
    [
        ("deviation", ([2 - 2**0.5, 5.0], [2 + 2**0.5, 5.0])),
        ("range", ([1.0, 5.0], [3.0, 5.0])),
        ("none", ([2.0, 5.0], [2.0, 5.0])),
    ],
)
def test_band_edges_follow_the_option(band, expected):
    assert band_edges(FOUND, band) == expected


def test_curve_record_has_one_value_per_update():
    assert FOUND.record()["mean"] == [2.0, 5.0] and FOUND.record()["updates"] == [1, 2]
