"""Sweeps: train every combination of values and seeds, and compare the results."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import TRAIN, SweepConfig
from toolkit.config.flags import scan_flags
from toolkit.config.load import bootstrap_options, load
from toolkit.config.run import RunConfig
from toolkit.sweep.grid import GridPoint, grid_points, insert_flags
from toolkit.sweep.jobs import SweepJob, run_all
from toolkit.sweep.outcomes import MetricSource, Outcome
from toolkit.sweep.progress import SweepProgress
from toolkit.sweep.report import report_sweep
from toolkit.sweep.resources import allocate_slots, slurm_script
from toolkit.sweep.sweep_run import SweepRun, check_same_data, prepare_folder
from toolkit.training.data import split_names


def run_sweep(argv: Sequence[str], c: SweepConfig) -> int:
    """Train unfinished runs and compare. Returns 0, 1 if a run failed, 128 + n after signal n."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ToolkitError(
            "A sweep cannot be started with torchrun. Use --sweep.jobs to train several runs in "
            "parallel."
        )
    base_config = load(argv, TRAIN).config
    if not split_names(base_config.data.valid_subset):
        raise ToolkitError(
            "A sweep requires a validation split, by which it compares its runs. Set "
            "--valid-subset valid."
        )
    runs = [build_run(argv, point, base_config) for point in grid_points(c)]
    unfinished = [run for run in runs if run.outcome is None]
    check_same_data(runs)
    for run in unfinished:
        run.check_same_options()
        run.check_not_shorter()
    base = Path(base_config.checkpoint.save_dir)
    prepare_folder(base)
    jobs = [run.job() for run in unfinished]
    if c.slurm:
        print(slurm_script([(job.name, shlex.join(job.command)) for job in jobs], base), end="")
        return 0
    return train_runs(jobs, runs, c) or compare_runs(runs, c, base)


def build_run(argv: Sequence[str], point: GridPoint, base: RunConfig) -> SweepRun:
    """The run of a grid point, from its validated command line; `base` is that of the sweep."""
    flags = [*point.flags(), "--logging.progress=lines"]
    flags += [f"--checkpoint.save-dir={Path(base.checkpoint.save_dir) / point.name}"]
    if base.logging.tensorboard_logdir:
        flags += [f"--logging.tensorboard-logdir={base.logging.tensorboard_logdir}/{point.name}"]
    bootstrap = scan_flags(argv, bootstrap_options(TRAIN))
    user_dirs = bootstrap["user_dir"].value if "user_dir" in bootstrap else []
    return SweepRun(point, load(insert_flags(argv, flags), TRAIN).config, user_dirs)


def train_runs(jobs: Sequence[SweepJob], runs: Sequence[SweepRun], c: SweepConfig) -> int:
    """Return 0, or 128 + the number of the signal that interrupted the sweep."""
    progress = SweepProgress(jobs, total=len(runs), updates=runs[0].config.training.max_update)
    with progress:
        signal = run_all(jobs, allocate_slots(c.jobs, runs[0].config.training.device), progress)
    if signal:
        left = sum(run.outcome is None for run in runs)
        progress.log(f"{left} of {len(runs)} runs are unfinished; the same command resumes them")
    return 128 + signal if signal else 0


def compare_runs(runs: Sequence[SweepRun], c: SweepConfig, base: Path) -> int:
    """Print and write the tables, draw the curves. Returns 1 if a run has no result."""
    results = [(run, measured(run.outcome)) for run in runs]
    outcomes = [outcome for _, outcome in results if outcome]
    if not outcomes:
        raise ToolkitError(
            f"all {len(runs)} runs of the sweep failed. See the logs, {base}/*/log.txt."
        )
    config = runs[0].config
    source = MetricSource(
        subset=split_names(config.data.valid_subset)[0],
        metric=c.metric or config.training.best_metric,
        validation=c.validation,
    )
    failed = Counter(run.point.configuration for run, outcome in results if outcome is None)
    report_sweep(outcomes, source, c, failed, base)
    return 1 if failed else 0


def measured(outcome: Outcome | None) -> Outcome | None:
    """The outcome, unless the run reached its time limit before its first validation."""
    return outcome if outcome and outcome.result.get("valid") else None
