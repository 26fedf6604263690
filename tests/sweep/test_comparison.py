import pytest

from tests.sweep.conftest import LOSS
from toolkit.sweep.comparison import comparison_table

LOSSES = {"true": [3.0, 5.0, 6.0], "false": [2.0, 3.0, 3.0]}  # differences 1, 2, 3


def test_comparison_table_shows_the_difference_from_the_best_with_its_interval(ranking):
    found = comparison_table(ranking(LOSSES), LOSS, "mean", failed={})
    columns = "x mean deviation n difference low high p sign_p"
    assert list(found.columns) == columns.split()
    half = 4.302653 / 3**0.5
    row = found.values()["rows"][0]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((2, 2 - half, 2 + half))
    assert (row["n"], row["sign_p"]) == (3, 0.25) and row["p"] == pytest.approx(0.07418, abs=1e-5)
    assert list(found.rows[1][4:]) == [None] * 5 and found.marked == [0, 1]
    assert found.caption == "loss on valid"
    assert found.note == (
        "marked: not distinguishable from the best, p > 0.05 in a paired t-test over equal seeds; "
        "low, high: 95% interval of the difference"
    )


def test_comparison_table_says_for_how_many_pairs_p_is_corrected(ranking):
    rows = {**LOSSES, "none": [4.0, 1.0, 2.5]}
    note = comparison_table(ranking(rows), LOSS, "mean", failed={}).note
    assert "equal seeds, corrected for all 3 pairs of rows; low" in note


def test_comparison_table_of_one_seed_says_that_there_is_no_test(ranking):
    found = comparison_table(ranking({"a": [3.0], "b": [2.0]}), LOSS, "mean", failed={})
    assert found.note == (
        "marked: every row, since without two equal seeds there is no interval and no test. "
        "Add --seeds 0,1,2,3,4."
    )
    assert found.marked == [0, 1] and list(found.rows[0][4:]) == [1.0, None, None, None, None]


def test_comparison_table_of_one_configuration_compares_nothing(ranking):
    found = comparison_table(ranking({"a": [3.0, 5.0]}), LOSS, "mean", failed={})
    assert list(found.columns) == ["x", "mean", "deviation", "n"]
    assert not found.marked and not found.note


def test_comparison_table_counts_pairs_where_seeds_are_missing(ranking):
    rows = {"a": {0: 1.0, 1: 2.0, 2: 2.5}, "b": {1: 4.0, 2: 3.0, 5: 9.0}}
    found = comparison_table(ranking(rows), LOSS, "mean", failed={"x=b": 2})
    assert [(row["n"], row["pairs"], row["failed"]) for row in found.values()["rows"]] == [
        (3, None, 0),
        (3, 2, 2),
    ]


@pytest.mark.parametrize(("by", "value"), [("median", 5.0), ("best", 3.0)])
def test_comparison_table_shows_the_statistic_that_rows_are_ranked_by(ranking, by, value):
    found = comparison_table(ranking(LOSSES, rank_by=by), LOSS, by, failed={})
    assert found.values()["rows"][0][by] == value
