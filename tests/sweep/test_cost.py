from tests.sweep.conftest import LOSS
from toolkit.sweep.cost import cost_table
from toolkit.sweep.grid import GridPoint
from toolkit.sweep.outcomes import Outcome
from toolkit.sweep.pairing import group_by_configuration
from toolkit.sweep.ranking import rank_configurations


def run(seed, speed, **costs):
    train = {"tokens_per_second": speed, "peak_memory_gib": 0.5}
    result = {"valid": {"valid": {"loss": 2.0}}, "train": train, **costs}
    return Outcome(GridPoint({"x": "a"}, seed), result)


def cost_row(*outcomes):
    ranking = rank_configurations(group_by_configuration(outcomes, LOSS), "loss", "mean")
    return cost_table(ranking, LOSS).values()["rows"][0]


def test_cost_table_shows_medians_beside_the_metric():
    costs = {"parameters": 7, "flops_per_token": 3.0}
    assert cost_row(*(run(seed, speed, **costs) for seed, speed in enumerate((1.0, 5.0, 6.0)))) == {
        "x": "a", "loss": 2.0, "tokens_per_second": 5.0, "peak_memory_gib": 0.5, **costs
    }  # fmt: skip


def test_cost_table_leaves_unknown_costs_empty():
    row = cost_row(run(0, 1.0), run(1, 1.0, flops_per_token=None))
    assert (row["parameters"], row["flops_per_token"]) == (None, None)
    assert cost_row(run(0, 1.0), run(1, 1.0, parameters=7))["parameters"] == 7
