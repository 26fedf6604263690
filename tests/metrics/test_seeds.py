import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from toolkit.metrics.seeds import compare_pairs, holm, summarize


def test_deviation_divides_by_n_minus_one():
    s = summarize([1.0, 2.0, 6.0])
    assert (s.mean, s.deviation, s.n, s.minimum, s.maximum) == (3.0, 7.0**0.5, 3, 1.0, 6.0)
    assert s.median == 2.0 and s.standard_error == (7 / 3) ** 0.5


def test_deviation_of_a_single_value_is_none():
    assert summarize([2.0]).deviation is None and summarize([2.0]).standard_error is None


@pytest.mark.parametrize("values", list(permutations([math.nan, 1.0, 3.0])))
def test_nan_makes_the_median_nan_and_is_left_out_of_the_range(values):
    s = summarize(values)
    assert math.isnan(s.mean) and math.isnan(s.median)
    assert (s.n, s.minimum, s.maximum) == (3, 1.0, 3.0)


A, B = [3.0, 7.0, 4.0], [2.0, 5.0, 1.0]  # differences 1, 2, 3


def test_paired_t_test_of_a_case_by_hand():
    found = compare_pairs(A, B)
    assert (found.n, found.mean) == (3, 2.0)
    assert found.standard_error == pytest.approx(1 / math.sqrt(3))
    half = 4.302653 / math.sqrt(3)  # the 97.5% quantile of t with 2 degrees of freedom
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), abs=1e-6)
    t = 2 * math.sqrt(3)
    assert found.p == pytest.approx(1 - t / math.sqrt(2 + t * t))  # closed form for 2 degrees
    assert found.sign_p == 2 * 0.5**3


def test_paired_t_test_equals_the_one_sample_test_of_differences():
    noise = np.random.default_rng(0).normal(size=(2, 9))
    found, difference = compare_pairs(*noise.tolist()), noise[0] - noise[1]
    test = stats.ttest_1samp(difference, 0.0)
    assert found.p == pytest.approx(test.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval(0.95)))
    assert found.standard_error == pytest.approx(stats.sem(difference))


def test_a_single_pair_has_a_difference_but_no_interval():
    found = compare_pairs([3.0], [1.0])
    assert (found.mean, found.low, found.high, found.p, found.sign_p) == (2.0, *[None] * 4)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_value_that_is_not_finite_prevents_the_comparison(odd):
    found = compare_pairs([1.0, odd], [1.0, 2.0])
    assert (found.n, found.mean, found.p) == (2, None, None)
    assert compare_pairs([], []).mean is None


def test_equal_differences_are_judged_by_their_signs():
    found = compare_pairs([0.1, 0.2, 0.3], [0.2, 0.3, 0.4])  # equal up to rounding
    assert (found.p, found.sign_p, found.low, found.standard_error) == (0.25, 0.25, None, 0.0)
    assert compare_pairs([0.1, 0.2], [0.1, 0.2]).p == 1.0


def test_sign_test_counts_signs_and_leaves_out_ties():
    assert compare_pairs([1.0, 2.0, 3.0, 4.0, 9.0], [0.0] * 5).sign_p == 2 * 0.5**5
    assert compare_pairs([1.0, 2.0, 0.0, 0.0, -9.0], [0.0] * 5).sign_p == 1.0
    assert compare_pairs([1.0, 2.0, 3.0, -4.0, 0.0], [0.0] * 5).sign_p == 10 / 16


def test_holm_multiplies_sorted_p_values_by_the_tests_that_are_left():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0] and holm([]) == []
