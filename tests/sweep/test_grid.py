import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import SweepConfig
from toolkit.sweep.grid import GridPoint, folder_name, grid_points, insert_flags


def test_grid_points_are_all_combinations_with_every_seed():
    c = SweepConfig(seeds=[0, 1], grid=["arch.fixed=true,false", "lr=1e-4"])
    assert [point.name for point in grid_points(c)] == [
        "arch.fixed=true,lr=1e-4,seed=0",
        "arch.fixed=true,lr=1e-4,seed=1",
        "arch.fixed=false,lr=1e-4,seed=0",
        "arch.fixed=false,lr=1e-4,seed=1",
    ]


def test_grid_points_of_seeds_or_values_alone():
    assert [p.name for p in grid_points(SweepConfig(seeds=[7]))] == ["seed=7"]
    assert [p.name for p in grid_points(SweepConfig(grid=["lr=1,2"]))] == ["lr=1", "lr=2"]


def test_grid_point_gives_flags():
    point = GridPoint({"task.mask_rate": "0.2"}, 3)
    assert point.flags() == ["--task.mask-rate=0.2", "--training.seed=3"]
    assert insert_flags(["data", "--", "-odd"], ["--a=1"]) == ["data", "--a=1", "--", "-odd"]


def test_folder_names_are_safe():
    assert folder_name("config=a/b c") == "config=a_b_c"
    long = folder_name("x" * 300)
    assert len(long) < 200 and long != folder_name("x" * 301)


def test_grid_points_reject_equal_folder_names():
    with pytest.raises(ToolkitError, match=r"must give different folder names"):
        grid_points(SweepConfig(grid=["path=a/b,a b"]))
