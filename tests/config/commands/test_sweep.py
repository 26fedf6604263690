import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import SweepConfig, first_values


def test_grid_names_options_and_their_values():
    c = SweepConfig(grid=["arch.fixed=true,false", "--lr=1e-4"])
    assert c.parse_grid() == {"arch.fixed": ["true", "false"], "lr": ["1e-4"]}


def test_grid_separates_values_with_commas_by_semicolons():
    c = SweepConfig(grid=["arch.convolve=query,key;value"])
    assert c.parse_grid() == {"arch.convolve": ["query,key", "value"]}


@pytest.mark.parametrize("text", ["arch.fixed", "=true", "arch.fixed=", "arch.fixed=true,,false"])
def test_grid_needs_an_option_and_values(text):
    with pytest.raises(ToolkitError, match=f"an option and its values, but is '{text}'. Write"):
        SweepConfig(grid=[text])


@pytest.mark.parametrize("grid", [["lr=1,1"], ["lr=1", "lr=2"]])
def test_grid_rejects_repeated_values_and_options(grid):
    with pytest.raises(ToolkitError, match=r"each value of an option once, but lr is repeated"):
        SweepConfig(grid=grid)


def test_sweep_rejects_repeated_seeds():
    with pytest.raises(ToolkitError, match=r"sweep.seeds must be distinct, but \[1\] are repeated"):
        SweepConfig(seeds=[1, 2, 1])


@pytest.mark.parametrize("key", ["save_dir", "training.seed", "checkpoint.save-dir"])
def test_grid_cannot_vary_options_that_the_sweep_sets(key):
    with pytest.raises(ToolkitError, match=r"sweep.grid cannot vary"):
        SweepConfig(grid=[f"{key}=1,2"])


def test_first_values_reads_an_unchecked_grid():
    assert first_values(["arch=bert,taco", "lr", "--task.name=x;y", "a="]) == {
        "arch": "bert",
        "task.name": "x",
    }
