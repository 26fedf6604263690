"""Options of toolkit-train: the sections and components of a run, and sweeps over runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import DEFAULT_COMPONENTS, Command
from toolkit.config.declared import ADVANCED, NO_SPLIT, Options, Processes, Size
from toolkit.config.sections import RunConfig

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})")


@dataclass(frozen=True)
class ValueRange:
    """Positive numbers from low to high, both included."""

    low: float
    high: float
    whole: bool
    """Whether only whole numbers are drawn, as from 100..1000."""


def parse_range(option: str, values: Sequence[str]) -> ValueRange | None:
    """The range that the values of an option are; None if they are a list."""
    match = RANGE.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        return None
    first, last = match.groups()
    low, high = float(first), float(last)
    if not 0 < low < high < math.inf:
        raise ToolkitError(
            f"sweep.grid {option}={match[0]} must be a range of positive numbers from a smaller to "
            f"a larger one: it is searched on a logarithmic scale. List the values instead, as in "
            f"{option}=0,0.1."
        )
    return ValueRange(low, high, whole=first.isdecimal() and last.isdecimal())


FIXED_OPTIONS = {
    "save_dir": "each run gets a subfolder",
    "checkpoint.save_dir": "each run gets a subfolder",
    "seed": "use --seeds",
    "training.seed": "use --seeds",
}


@dataclass(frozen=True, kw_only=True)
class SweepConfig(Options, section="sweep", title="sweeps"):
    """The section `sweep`: seeds, values to try, and jobs."""

    seeds: list[int] = field(default_factory=list)
    """Train once with each of these seeds, separated by commas, in subfolders of the save folder.
    Ends with a table that compares the configurations on equal seeds."""
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Hyperparameter search: an option and values to try, as in arch.fixed=true,false. Repeat the
    flag for more options: every combination is trained. Values that contain commas are separated by
    semicolons. From a range, as in lr=1e-5..1e-3, --sweep.trials values are drawn log-uniformly,
    the same for every combination of the other options."""
    suite: str = ""
    """Train --finetune-from on each task of a suite, with its seeds and settings, which other
    options replace: babylm-2025-glue, superglue or a YAML file. The folder that is named has the
    tasks' JSON lines, NAME.train.jsonl and NAME.valid.jsonl; tasks that are missing are reported.
    Ends with a table of means and deviations."""
    trials: Size = 10
    """Random search: how many values to draw from each range of --grid. More of them extend the
    search."""
    jobs: Processes = 0
    """Runs to train in parallel: one per GPU, or sharing the CPU's threads (0: the number of GPUs,
    or 1)."""
    metric: str = ""
    """Validation metric to compare. Default: that of --best-metric."""
    validation: Literal["last", "best"] = field(default="last", metadata=ADVANCED)
    """Validation of each run to compare: the last one, or that of the best checkpoint."""
    rank_by: Literal["mean", "median", "best"] = field(default="mean", metadata=ADVANCED)
    """Statistic over seeds that finds the best variant."""
    slurm: bool = field(default=False, metadata=ADVANCED)
    """Print a Slurm array script for the unfinished runs, train nothing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if repeated := sorted(seed for seed, count in Counter(self.seeds).items() if count > 1):
            raise ToolkitError(f"sweep.seeds must be distinct, but {repeated} are repeated.")
        self.ranges()  # raises for what is no range
        if self.suite and self.grid:
            raise ToolkitError("--suite cannot be combined with --grid. Use --seeds alone.")

    def ranges(self) -> dict[str, ValueRange]:
        """Option -> the range to draw from."""
        parsed = {key: parse_range(key, values) for key, values in self.parse_grid().items()}
        return {key: found for key, found in parsed.items() if found}

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
    """`--arch.key-dynamic=true,false` -> arch.key_dynamic, the equals sign if any, the values."""
    key, equals, rest = text.partition("=")
    option = key.strip().removeprefix("--").replace("-", "_")
    return option, equals, rest.split(";") if ";" in rest else rest.split(",")


TRAIN = Command(
    name="toolkit-train",
    summary="Train an architecture on a task with the data folders that toolkit-preprocess wrote. "
    "Checkpoints, a log and the result go to the save folder; if it already holds checkpoints, the "
    "run resumes from the latest. --seeds and --grid train several runs and compare them. Numbers "
    "may change during a run: --weight-decay 0.1:0, or --batch-size 64@0,256@5epochs.",
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
SUITE_TRAIN = replace(TRAIN, defaults={**DEFAULT_COMPONENTS, "task": "glue"})
"""toolkit-train --suite, which reads files; the suite may name other tasks."""
