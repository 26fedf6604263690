import math
from itertools import permutations

import pytest

from toolkit.metrics.seeds import summarize


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
