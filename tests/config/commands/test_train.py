import re

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import SweepConfig, ValueRange


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


@pytest.mark.parametrize(
    "options",
    [
        {"grid": [f"{name}={','.join(map(str, range(100)))}" for name in "abc"]},
        {"grid": ["lr=1e-5..1e-3"], "trials": 2**31 - 1},
        {"grid": [f"a={','.join(map(str, range(400)))}"], "seeds": list(range(400))},
    ],
)
def test_sweep_rejects_more_runs_than_a_machine_can_list(options):
    with pytest.raises(ToolkitError, match=r"at most 100000 runs, but this one has \d+\. "):
        SweepConfig(**options)


@pytest.mark.parametrize("key", ["save_dir", "training.seed", "checkpoint.save-dir"])
def test_grid_cannot_vary_options_that_the_sweep_sets(key):
    with pytest.raises(ToolkitError, match=r"sweep.grid cannot vary"):
        SweepConfig(grid=[f"{key}=1,2"])


LR = "lr=1e-5..1e-3"


def test_ranges_are_read_as_numbers():
    c = SweepConfig(grid=[LR, "radius=2..16", "x=a..b,../c"], trials=2)
    assert c.ranges() == {
        "lr": ValueRange(1e-5, 1e-3, whole=False),
        "radius": ValueRange(2.0, 16.0, whole=True),
    }
    assert c.tuned() == ["lr", "radius"] and c.runs == 4
    assert SweepConfig(grid=["lr=1,2"], trials=3).runs == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"grid": ["lr=1e-3..1e-5"]},
            "sweep.grid lr=1e-3..1e-5 must begin with the lower number. Write lr=1e-5..1e-3.",
        ),
        ({"grid": ["lr=0..1"]}, "sweep.grid lr=0..1 must be a range of positive numbers"),
        ({"grid": ["lr=-1..1"]}, "must be a range of positive numbers"),
        ({"grid": [LR], "tune": ["rate"]}, "must name options of sweep.grid, but is rate."),
    ],
)
def test_search_rejects_options_that_do_not_fit_together(options, message):
    with pytest.raises(ToolkitError, match=re.escape(message)):
        SweepConfig(**options)


def test_tune_names_options_as_grid_does():
    c = SweepConfig(grid=["--arch.key-dynamic=true,false", "lr=1,2"], tune=["arch.key-dynamic"])
    assert c.tuned() == ["arch.key_dynamic"]
