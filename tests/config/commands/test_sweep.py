import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import SweepConfig, first_values


def test_a_grid_names_options_and_their_values():
    c = SweepConfig(grid=["arch.fixed=true,false", "--lr=1e-4"])
    assert c.parse_grid() == {"arch.fixed": ["true", "false"], "lr": ["1e-4"]}


def test_values_with_commas_are_parted_by_semicolons():
    c = SweepConfig(grid=["arch.convolve=query,key;value"])
    assert c.parse_grid() == {"arch.convolve": ["query,key", "value"]}


@pytest.mark.parametrize("text", ["arch.fixed", "=true", "arch.fixed=", "arch.fixed=true,,false"])
def test_a_grid_without_option_or_values_is_refused(text):
    with pytest.raises(ToolkitError, match=f"an option and its values, but is '{text}'. Write"):
        SweepConfig(grid=[text])


@pytest.mark.parametrize("grid", [["lr=1,1"], ["lr=1", "lr=2"]])
def test_a_value_or_an_option_that_comes_twice_is_refused(grid):
    with pytest.raises(ToolkitError, match=r"each value of an option once, but lr comes twice"):
        SweepConfig(grid=grid)


def test_a_seed_that_comes_twice_is_refused():
    with pytest.raises(ToolkitError, match=r"sweep.seeds must differ, but \[1\] come twice"):
        SweepConfig(seeds=[1, 2, 1])


@pytest.mark.parametrize("key", ["save_dir", "training.seed", "checkpoint.save-dir"])
def test_what_the_sweep_itself_sets_cannot_be_varied(key):
    with pytest.raises(ToolkitError, match=r"sweep.grid must not vary"):
        SweepConfig(grid=[f"{key}=1,2"])


def test_the_first_values_of_a_grid_are_known_before_it_is_checked():
    assert first_values(["arch=bert,taco", "lr", "--task.name=x;y", "a="]) == {
        "arch": "bert",
        "task.name": "x",
    }
