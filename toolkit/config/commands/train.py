"""Options of toolkit-train: the sections and components of a run, and sweeps over runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command
from toolkit.config.declared import NonNegativeInt, Options
from toolkit.config.options import ADVANCED, NO_SPLIT
from toolkit.config.run import RunConfig

FIXED_OPTIONS = {
    "save_dir": "each run gets a subfolder",
    "checkpoint.save_dir": "each run gets a subfolder",
    "seed": "use --seeds",
    "training.seed": "use --seeds",
}


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Options, section="sweep", title="sweeps"):
    seeds: list[int] = field(default_factory=list)
    """Train once with each of these seeds, separated by commas, in subfolders of the save folder.
    Ends with a table of mean, standard deviation, standard error and median."""
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Option and values to try, as in arch.fixed=true,false. Repeat the flag for more options:
    every combination is trained. Values that contain commas are separated by semicolons."""
    jobs: NonNegativeInt = 0
    """Runs to train in parallel: one per GPU, or sharing the CPU's threads (0: the number of GPUs,
    or 1)."""
    metric: str = ""
    """Validation metric to compare. Default: that of --best-metric."""
    validation: Literal["last", "best"] = field(default="last", metadata=ADVANCED)
    """Validation of each run to compare: the last one, or that of the best checkpoint."""
    rank_by: Literal["mean", "median", "best"] = field(default="mean", metadata=ADVANCED)
    """Statistic over the seeds by which the best configuration is marked."""
    slurm: bool = False
    """Print a Slurm array script with a task for each unfinished run, and train nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        repeated = sorted({seed for seed in self.seeds if self.seeds.count(seed) > 1})
        if repeated:
            raise ToolkitError(f"sweep.seeds must be distinct, but {repeated} are repeated.")
        self.parse_grid()

    @property
    def is_sweep(self) -> bool:
        """Whether there is more than one run to train."""
        return bool(self.seeds or self.grid)

    def parse_grid(self) -> dict[str, list[str]]:
        """Option -> the values to try, all still text."""
        grid: dict[str, list[str]] = {}
        for text in self.grid:
            key, equals, values = parse_grid_item(text)
            if not key or not equals or not all(values):
                raise ToolkitError(
                    f"sweep.grid must be an option and its values, but is {text!r}. Write it as in "
                    f"--grid arch.fixed=true,false."
                )
            if key in FIXED_OPTIONS:
                raise ToolkitError(f"sweep.grid cannot vary {key}: {FIXED_OPTIONS[key]}.")
            if key in grid or len(set(values)) < len(values):
                raise ToolkitError(
                    f"sweep.grid must try each value of an option once, but {key} is repeated "
                    f"in {' and '.join(self.grid)}."
                )
            grid[key] = values
        return grid


def parse_grid_item(text: str) -> tuple[str, str, list[str]]:
    """`arch.fixed=true,false` -> the option, the equals sign if there is one, the values."""
    key, equals, rest = text.partition("=")
    key = key.strip().removeprefix("--").replace("-", "_")
    return key, equals, rest.split(";") if ";" in rest else rest.split(",")


def first_values(grid: Iterable[str]) -> dict[str, str]:
    """Option -> the first value to try, if there is one."""
    return {key: values[0] for key, _, values in map(parse_grid_item, grid) if values[0]}


TRAIN = Command(
    name="toolkit-train",
    summary="Train an architecture on a task with the data folders that toolkit-preprocess wrote. "
    "Checkpoints, a log and the result go to the save folder; if it already holds checkpoints, the "
    "run resumes from the latest. --seeds and --grid train several runs and compare them.",
    example="toolkit-train data --arch composite_bert_small --task mlm --max-update 10000 "
    "--lr 3e-4 --save-dir run",
    config=RunConfig,
    components=COMPONENTS,
    sections={"sweep": SweepConfig},
    common=(
        "data.max_tokens",
        "data.batch_size",
        "optimizer.lr",
        "lr_scheduler.warmup_updates",
        "training.max_update",
        "training.max_epoch",
        "training.update_freq",
        "training.precision",
        "training.seed",
        "checkpoint.save_dir",
        "sweep.seeds",
        "sweep.grid",
    ),
)
