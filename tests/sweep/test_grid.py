import math

import pytest
from scipy import stats

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import SweepConfig, ValueRange
from toolkit.sweep.ranking import GridPoint, draw_trials, grid_points


def test_grid_points_are_all_combinations_with_every_seed():
    c = SweepConfig(seeds=[0, 1], grid=["arch.fixed=true,false", "lr=1e-4"])
    assert [point.name for point in grid_points(c)] == [
        "arch.fixed=true,lr=1e-4,seed=0",
        "arch.fixed=true,lr=1e-4,seed=1",
        "arch.fixed=false,lr=1e-4,seed=0",
        "arch.fixed=false,lr=1e-4,seed=1",
    ]


def test_folder_names_are_safe():
    assert GridPoint({"config": "a/b c"}, None).name == "config=a_b_c"
    long, longer = (GridPoint({"x": "x" * length}, None).name for length in (300, 301))
    assert len(long) < 200 and long != longer


def test_grid_points_reject_equal_folder_names():
    with pytest.raises(ToolkitError, match=r"must give different folder names"):
        grid_points(SweepConfig(grid=["path=a/b,a b"]))


LR = ValueRange(1e-5, 1e-3, whole=False)


def test_draws_are_log_uniform():
    drawn = [math.log(float(t["lr"])) for t in draw_trials({"lr": LR}, 500)]
    span = math.log(1e-3) - math.log(1e-5)
    assert stats.kstest(drawn, stats.uniform(math.log(1e-5), span).cdf).pvalue > 0.01
    assert math.log(1e-5) <= min(drawn) < max(drawn) <= math.log(1e-3)


def test_more_trials_continue_the_draws():
    assert draw_trials({"lr": LR}, 9)[:4] == draw_trials({"lr": LR}, 4)


def test_draws_of_two_options_are_independent():
    both = draw_trials({"lr": LR, "arch.dropout": LR}, 300)
    columns = [[float(t[name]) for t in both] for name in ("lr", "arch.dropout")]
    assert abs(stats.spearmanr(*columns).statistic) < 0.15


def test_whole_numbers_are_drawn_once_each():
    drawn = draw_trials({"radius": ValueRange(2.0, 4.0, whole=True)}, 40)
    assert sorted(t["radius"] for t in drawn) == ["2", "3", "4"]
    large = ValueRange(2e6, 3e6, whole=True)
    assert all(t["n"].isdigit() for t in draw_trials({"n": large}, 9))
