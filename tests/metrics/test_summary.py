from toolkit.metrics.summary import summary


def test_the_deviation_divides_by_one_less_than_the_count():
    s = summary([1.0, 2.0, 6.0])
    assert (s.mean, s.deviation, s.n, s.minimum, s.maximum) == (3.0, 7.0**0.5, 3, 1.0, 6.0)
    assert s.median == 2.0 and s.error == (7 / 3) ** 0.5


def test_a_single_value_has_no_deviation():
    assert summary([2.0]).deviation is None and summary([2.0]).error is None
