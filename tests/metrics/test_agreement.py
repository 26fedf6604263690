"""Equal to scikit-learn and scipy on random and on edge inputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from toolkit.metrics.classification import accuracy, f1, matthews, pearson, ranks, spearman

sklearn = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
CLASSES = [
    (np.array(y), np.array(x))
    for y, x in [
        ([0, 1, 1, 0], [0, 1, 1, 0]),
        ([0, 1], [1, 0]),
        ([1, 1, 1], [0, 1, 1]),
        ([0, 0], [0, 0]),
        ([0, 1, 0], [1, 1, 1]),
        ([2], [0]),
        ([0, 2, 2], [0, 2, 1]),
    ]
]
VALUES = [
    (np.array(y), np.array(x))
    for y, x in [
        ([1.0, 2.0], [2.0, 1.0]),
        ([1.0, 1.0, 2.0], [3.0, 3.0, 3.0 + 1e-9]),
        ([0.0, 5.0, 2.5, 2.5], [1e9, 1e9 + 1, 1e9 + 2, 1e9]),
        ([1e-200, 2e-200, 4e-200], [1.0, 2.0, 3.0]),
        ([1e200, 2e200, 4e200], [3.0, 2.0, 2.5]),
        ([0.0, -0.0, 1.0], [1.0, 2.0, 3.0]),
    ]
]


def random_classes(count, classes, seed):
    draws = np.random.default_rng(seed)
    y = draws.integers(0, classes, count)
    return y, np.where(draws.random(count) < 0.6, y, draws.integers(0, classes, count))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("y", "x"), [*CLASSES, *(random_classes(9**s + 1, 2 + s % 2, s) for s in range(5))]
)
def test_figures_of_classes_equal_scikit_learns(y, x):
    assert accuracy(y, x) == pytest.approx(sklearn.accuracy_score(y, x), abs=1e-12)
    assert matthews(y, x) == pytest.approx(sklearn.matthews_corrcoef(y, x), abs=1e-12)
    binary = sklearn.f1_score(y, x, labels=[1], average="macro", zero_division=0)
    assert f1(y, x) == pytest.approx(binary, abs=1e-12)


def random_values(count, ties, seed):
    draws = np.random.default_rng(seed)
    y = draws.normal(size=count)
    x = y + draws.normal(size=count)
    return (np.round(y * 2), np.round(x)) if ties else (y, x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("y", "x"), [*VALUES, *(random_values(7**s + 5, s % 2, s) for s in range(5))]
)
def test_figures_of_numbers_equal_scipys(y, x):
    want = stats.spearmanr(y, x).statistic
    assert spearman(y, x) == pytest.approx(want, abs=1e-12, nan_ok=True)
    assert ranks(x).tolist() == stats.rankdata(x).tolist()
    if abs(x).max() < 1e9:  # else scipy itself has lost digits
        want = stats.pearsonr(y, x).statistic
        assert pearson(y, x) == pytest.approx(want, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("other", [[1.0, 1.0, 1.0], [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]])
def test_nothing_goes_along_with_a_constant_or_with_what_is_no_number(other):
    numbers = np.array([1.0, 2.0, 3.0])
    for figure in (pearson, spearman):
        assert math.isnan(figure(numbers, np.array(other)))
        assert math.isnan(figure(np.array(other), numbers))


def test_one_row_goes_along_with_nothing():
    assert math.isnan(pearson(np.ones(1), np.ones(1)))


def test_a_large_offset_costs_no_digits():
    y = np.arange(10.0)
    x = y**2
    assert pearson(y, x + 2.0**40) == pytest.approx(pearson(y, x), abs=1e-12)
