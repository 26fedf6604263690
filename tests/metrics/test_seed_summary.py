import math
from itertools import permutations

import pytest

from toolkit.metrics.seed_summary import summarize


def test_the_deviation_divides_by_one_less_than_the_count():
    s = summarize([1.0, 2.0, 6.0])
    assert (s.mean, s.deviation, s.n, s.minimum, s.maximum) == (3.0, 7.0**0.5, 3, 1.0, 6.0)
    assert s.median == 2.0 and s.standard_error == (7 / 3) ** 0.5


def test_a_single_value_has_no_deviation():
    assert summarize([2.0]).deviation is None and summarize([2.0]).standard_error is None


@pytest.mark.parametrize("values", list(permutations([math.nan, 1.0, 3.0])))
def test_what_is_no_number_spoils_the_median_in_any_order_and_is_outside_the_range(values):
    s = summarize(values)
    assert math.isnan(s.mean) and math.isnan(s.median)
    assert (s.n, s.minimum, s.maximum) == (3, 1.0, 3.0)


def test_nothing_but_nan_has_no_range():
    s = summarize([math.nan, math.nan])
    assert all(map(math.isnan, (s.median, s.minimum, s.maximum)))
