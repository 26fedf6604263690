import pytest

from tests.sweep.conftest import LOSS
from toolkit.sweep.pairing import group_by_configuration
from toolkit.sweep.ranking import rank_configurations
from toolkit.sweep.tuning import best_of_each_variant, describe_edges

LOSSES = {("a", "1"): 4.0, ("a", "2"): 3.0, ("a", "3"): 5.0, ("b", "1"): 6.0, ("b", "2"): 7.0}


@pytest.fixture
def tried(outcome):
    runs = [
        outcome(seed, loss + seed * (0.1 if x == "a" else 0.2), x=x, lr=lr)
        for (x, lr), loss in LOSSES.items()
        for seed in range(3)
    ]
    return rank_configurations(group_by_configuration(runs, LOSS), "loss", "mean")


def values(ranking):
    return [tuple(row.configuration.point.values.values()) for row in ranking.rows]


def test_the_best_value_is_chosen_for_each_variant(tried):
    chosen = best_of_each_variant(tried, ["lr"], "loss")
    assert values(chosen) == [("a", "2"), ("b", "1")] and chosen.best == 0
    assert values(best_of_each_variant(tried, ["lr", "x"], "loss")) == [("a", "2")]


def test_chosen_rows_keep_p_values_corrected_for_all_that_were_tried(tried):
    chosen = best_of_each_variant(tried, ["lr"], "loss")
    assert chosen.tests == 10 and chosen.rows[1].p == tried.rows[3].p


def test_values_at_the_edge_of_those_tried_are_named(tried):
    chosen = best_of_each_variant(tried, ["lr"], "loss")
    assert (
        describe_edges(tried, chosen, ["lr"]) == "best at the smallest lr tried: try values beyond"
    )
    inner = best_of_each_variant(tried, ["lr", "x"], "loss")
    assert describe_edges(tried, inner, ["lr", "x"]) == ""
