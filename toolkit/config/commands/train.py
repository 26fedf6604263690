"""Many runs as one: which seeds and which values to try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS
from toolkit.config.command import Command
from toolkit.config.options import NO_SPLIT
from toolkit.config.run import RunConfig
from toolkit.config.sections import check_choice, require

EXAMPLE = "Write it as in --grid arch.fixed=true,false."
FIXED_OPTIONS = {
    "save_dir": "each run has its own folder in it",
    "checkpoint.save_dir": "each run has its own folder in it",
    "seed": "that is what --seeds is for",
    "training.seed": "that is what --seeds is for",
}


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    seeds: list[int] = field(default_factory=list)
    """Train once with each of these seeds, separated by commas, each in a folder of its own
    under the save folder. Ends in a table of mean, standard deviation and error, and median."""
    grid: list[str] = field(default_factory=list, metadata=NO_SPLIT)
    """Option and the values to try, as in arch.fixed=true,false; repeat the flag for a further
    option, and every combination is trained. Values with commas are parted by semicolons."""
    jobs: int = 0
    """Runs to train at the same time: one a GPU, or sharing out the CPU's threads. 0 for as many
    as there are GPUs, one without."""
    metric: str = ""
    """Validation figure to compare; empty for that of training.best_metric."""
    validation: str = "last"
    """last or best. Which validation of each run is compared: its last one, or that of its best
    checkpoint, by training.best_metric."""
    rank_by: str = "mean"
    """mean, median or best: what of its seeds the marked configuration is better in."""
    slurm: bool = False
    """Print a Slurm array script with a task for each unfinished run, and train nothing."""

    def __post_init__(self) -> None:
        check_choice("sweep.validation", self.validation, ("last", "best"))
        check_choice("sweep.rank_by", self.rank_by, ("mean", "median", "best"))
        require(self.jobs >= 0, f"sweep.jobs must not be negative, but is {self.jobs}.")
        twice = sorted({seed for seed in self.seeds if self.seeds.count(seed) > 1})
        require(not twice, f"sweep.seeds must differ, but {twice} come twice. Give each once.")
        self.parse_grid()

    @property
    def is_sweep(self) -> bool:
        """Whether there is a set of runs at all."""
        return bool(self.seeds or self.grid)

    def parse_grid(self) -> dict[str, list[str]]:
        """Option -> the values to try, all still text."""
        found: dict[str, list[str]] = {}
        for text in self.grid:
            key, equals, tried = parse_grid_item(text)
            if not key or not equals or not all(tried):
                raise ToolkitError(
                    f"sweep.grid must be an option and its values, but is {text!r}. {EXAMPLE}"
                )
            if key in FIXED_OPTIONS:
                raise ToolkitError(f"sweep.grid must not vary {key}: {FIXED_OPTIONS[key]}.")
            if key in found or len(set(tried)) < len(tried):
                raise ToolkitError(
                    f"sweep.grid must try each value of an option once, but {key} comes twice "
                    f"in {' and '.join(self.grid)}."
                )
            found[key] = tried
        return found


def parse_grid_item(text: str) -> tuple[str, str, list[str]]:
    """`arch.fixed=true,false` -> the option, the equals sign if there is one, the values."""
    key, equals, rest = text.partition("=")
    key = key.strip().removeprefix("--").replace("-", "_")
    return key, equals, rest.split(";") if ";" in rest else rest.split(",")


def first_values(grid: Iterable[str]) -> dict[str, str]:
    """Option -> the first value to try, where there is one."""
    return {key: tried[0] for key, _, tried in map(parse_grid_item, grid) if tried[0]}


TRAIN = Command(
    name="toolkit-train",
    summary="Train an architecture on a task with the folders that toolkit-preprocess wrote. "
    "Checkpoints, a log and the result go to the save folder; a run whose folder already holds "
    "checkpoints goes on from the last one. With --seeds or --grid it trains a set of runs.",
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
