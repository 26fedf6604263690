import numpy as np
import pytest

from toolkit.metrics.classification import compare_scores, pair_accuracy


def test_ties_count_half_and_tolerances_hold_for_the_difference():
    good, bad = np.array([-1.0, -2.0, -3.0, -1.0]), np.array([-2.0, -1.0, -3.0, -1.05])
    assert compare_scores(good, bad).tolist() == [1, 0, 0.5, 1]
    assert compare_scores(good, bad, 0.1).tolist() == [1, 0, 0.5, 0.5]
    assert compare_scores(good, bad, np.array([0.1, 2, 0, 0])).tolist() == [1, 0.5, 0.5, 1]


def test_accuracy_is_a_mean_over_pairs_with_the_error_of_a_stratified_sample():
    results = np.array([1, 1, 0, 1, 0.5, 0, 0, 1.0])
    strata = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found = pair_accuracy(results, strata)
    first, second = results[:4].var(), results[4:].var()
    assert found[:2] == (8, pytest.approx(4.5 / 8)) and found.ties == 1
    weights = (0.5**2 * first / 4 + 0.5**2 * second / 4) ** 0.5
    assert found.standard_error == pytest.approx(weights)


def test_standard_error_of_one_paradigm_is_binomial_and_differences_between_them_add_nothing():
    one = pair_accuracy(np.array([1.0] * 7 + [0.0] * 3), np.zeros(10, np.int64))
    assert one.standard_error == pytest.approx((0.7 * 0.3 / 10) ** 0.5)
    two = pair_accuracy(np.repeat([1.0, 0.0], 5), np.repeat([0, 1], 5))
    assert (two.accuracy, two.standard_error) == (0.5, 0.0)
