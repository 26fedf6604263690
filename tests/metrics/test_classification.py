from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from toolkit.metrics.classification import (
    BINS,
    MAX_LOGIT,
    accuracy,
    choose,
    class_metrics,
    confusion_matrix,
    f1,
    macro_f1,
    matthews,
    pearson,
    roc_auc,
    score_histogram,
    spearman,
    stratified_error,
)

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


def counts(scores, answers):
    scores = torch.as_tensor(scores)
    yes = torch.as_tensor(answers).bool()
    return score_histogram(scores, yes).numpy(), score_histogram(scores, ~yes).numpy()


@pytest.mark.parametrize("apart", [0.0, 0.7, 3.0])
def test_roc_auc_equals_scikit_learn_within_its_error(apart):
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    answers = random.random(5000) < 0.1
    scores = random.normal(size=5000) - 3 + apart * answers
    positives, negatives = counts(scores, answers)
    pairs = positives.sum() * negatives.sum()
    error = (positives * negatives).sum() / (2 * pairs)  # pairs within a bin
    assert error < 1e-3
    wanted = metrics.roc_auc_score(answers, scores)
    assert abs(roc_auc(positives, negatives) - wanted) < error / 10


def test_roc_auc_counts_equal_scores_half():
    assert roc_auc(*counts([0.0, 0.0, 1.0], [1, 0, 1])) == 0.75


def test_histogram_counts_extreme_logits_in_the_outermost_bins():
    positives, negatives = counts([1e9, MAX_LOGIT, -torch.inf, torch.nan], [1, 1, 0, 0])
    assert positives[BINS - 1] == 2 and negatives[0] == negatives[BINS // 2] == 1
    assert roc_auc(positives, negatives) == 1.0


def test_roc_auc_is_nan_without_both_classes():
    assert math.isnan(roc_auc(*counts([1.0, 2.0], [1, 1])))
    assert math.isnan(roc_auc(*counts([], [])))


def test_class_metrics_equal_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    draw = np.random.default_rng(0)
    labels, predictions = draw.integers(0, 6, 500), draw.integers(0, 7, 500)
    table = confusion_matrix(labels, predictions, 7)
    want = sklearn.precision_recall_fscore_support(
        labels, predictions, labels=range(7), zero_division=0
    )
    got = [it[1:] for it in class_metrics(table, "abcdefg")]
    np.testing.assert_allclose(np.array(got).T, want)
    assert macro_f1(table, "abcdefg") == pytest.approx(want[2].mean())
    np.testing.assert_array_equal(table, sklearn.confusion_matrix(labels, predictions))


def test_tied_options_share_the_answer_or_the_first_one_is_chosen():
    scores = np.array(
        [[-1, -2, -3], [-2, -1, -np.inf], [-3, -3, -5], [-1, -1, -1], [-1, -1.05, -9]]
    )
    answers, tolerance = np.array([0, 0, 1, 2, 1]), np.array([0, 0, 0, 0, 0.1])
    results, tied = choose(scores, answers, tolerance, first=False)
    assert results.tolist() == [1, 0, 0.5, pytest.approx(1 / 3), 0.5]
    assert tied.tolist() == [False, False, True, True, True]
    assert choose(scores, answers, tolerance, first=True)[0].tolist() == [1, 0, 0, 0, 0]
    assert choose(scores, answers * 0, tolerance, first=True)[0].tolist() == [1, 0, 1, 1, 1]


def test_standard_error_is_that_of_a_stratified_sample_and_of_the_bootstrap_within_strata():
    results = np.array([1, 1, 0, 1, 0.5, 0, 0, 1.0])
    strata = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    first, second = results[:4].var(), results[4:].var()
    found = stratified_error(results, strata)
    assert found == pytest.approx((0.5**2 * first / 4 + 0.5**2 * second / 4) ** 0.5)
    draw = np.random.default_rng(0).integers(0, 4, (20_000, 8)) + 4 * strata
    assert results[draw].mean(1).std() == pytest.approx(found, rel=0.02)
    one = stratified_error(np.array([1.0] * 7 + [0.0] * 3), np.zeros(10, np.int64))
    assert one == pytest.approx((0.7 * 0.3 / 10) ** 0.5)
    assert stratified_error(np.repeat([1.0, 0.0], 5), np.repeat([0, 1], 5)) == 0
