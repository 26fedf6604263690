"""Metrics equal scikit-learn and scipy on random inputs and edge cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

from toolkit.metrics.classification import accuracy, f1, matthews, pearson, spearman

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
def test_classification_metrics_equal_scikit_learn(y, x):
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
def test_correlations_equal_scipy(y, x):
    want = stats.spearmanr(y, x).statistic
    assert spearman(y, x) == pytest.approx(want, abs=1e-12, nan_ok=True)
    want = stats.pearsonr(y, x).statistic
    assert pearson(y, x) == pytest.approx(want, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("other", [[1.0, 1.0, 1.0], [1.0, math.nan, 2.0], [1.0, math.inf, 2.0]])
def test_correlation_with_a_constant_or_non_finite_column_is_nan(other):
    numbers = np.array([1.0, 2.0, 3.0])
    for metric in (pearson, spearman):
        assert math.isnan(metric(numbers, np.array(other)))
        assert math.isnan(metric(np.array(other), numbers))


def test_correlation_of_a_single_row_is_nan():
    assert math.isnan(pearson(np.ones(1), np.ones(1)))


def test_a_large_offset_keeps_the_precision_of_a_correlation():
    y = np.arange(10.0)
    x = y**2
    assert pearson(y, x + 2.0**40) == pytest.approx(pearson(y, x), abs=1e-12)
