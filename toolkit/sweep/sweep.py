"""Sweeps: train every combination of values and seeds, and compare the results."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from toolkit.checkpoints.load import read_complete_starts
from toolkit.checkpoints.save_folder import CHECKPOINT_NAME, SaveFolder
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject, read_json
from toolkit.config.commands.train import TRAIN, SweepConfig
from toolkit.config.load import Resolved, early_values, resolve, to_run_config, vary
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import diff_configs, list_differences, to_dict
from toolkit.config.values import get_value, read_words
from toolkit.data.storage.data_folder import open_folder
from toolkit.reporting.runs import OPTIONS_FILE, RESULT_FILE, relevant_options
from toolkit.sweep.jobs import SweepJob, SweepProgress, allocate_slots, run_all, slurm_script
from toolkit.sweep.ranking import GridPoint, MetricSource, Outcome, grid_points, load_result
from toolkit.sweep.report import report_sweep
from toolkit.training.data import split_names


def run_sweep(argv: Sequence[str], c: SweepConfig) -> int:
    """Train unfinished runs and compare. Returns 0, 1 if a run failed, 128 + n after signal n."""
    resolved = resolve(argv, TRAIN)
    config = to_run_config(resolved.build_configs())
    if not split_names(config.data.valid_subset):
        raise ToolkitError(
            "A sweep requires a validation split, by which it compares its runs. Set "
            "--valid-subset valid."
        )
    base = Path(config.checkpoint.save_dir)
    runs = plan_runs(argv, resolved, grid_points(c), base)
    code = train_runs(runs, c, base)
    return compare_outcomes(runs, c, base) if code is None else code


def plan_runs(
    argv: Sequence[str],
    resolved: Resolved,
    points: Sequence[GridPoint],
    base: Path,
    more: Mapping[str, str] = MappingProxyType({}),
) -> list[SweepRun]:
    """The runs with the options of a command line, `more` of them, and those of the points."""
    user_dirs, runs = get_value(early_values(read_words(argv), TRAIN), "user_dir", []), []
    logdir = get_value(resolved.values, "logging.tensorboard_logdir", None)
    for point in points:
        texts = {**more, **point.values, "logging.progress": "lines"}
        texts |= {} if point.seed is None else {"training.seed": str(point.seed)}
        texts["checkpoint.save_dir"] = str(base / point.name)
        if logdir:
            texts["logging.tensorboard_logdir"] = f"{logdir}/{point.name}"
        runs.append(SweepRun(point, vary(resolved, texts, TRAIN), user_dirs))
    return runs


def train_runs(runs: Sequence[SweepRun], c: SweepConfig, base: Path) -> int | None:
    """Train unfinished runs; the exit code if there is nothing to compare, else None."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ToolkitError(
            "A sweep cannot be started with torchrun. Use --sweep.jobs to train several runs in "
            "parallel."
        )
    unfinished = [run for run in runs if run.outcome is None]
    check_data_unchanged(runs)
    for run in unfinished:
        run.check_same_options()
        run.check_not_shorter()
    base.mkdir(parents=True, exist_ok=True)
    jobs = [run.job(base) for run in unfinished]
    if c.slurm:
        print(slurm_script([(job.name, shlex.join(job.command)) for job in jobs], base), end="")
        return 0
    device = runs[0].config.training.device
    with SweepProgress(jobs, total=len(runs)) as progress:
        signal = run_all(jobs, allocate_slots(c.jobs, device), progress)
    if signal:
        left = sum(run.outcome is None for run in runs)
        progress.log(f"{left} of {len(runs)} runs are unfinished; the same command resumes them")
        return 128 + signal
    return None


def compare_outcomes(runs: Sequence[SweepRun], c: SweepConfig, base: Path) -> int:
    """Print and write the tables, draw the curves. Returns 1 if a run has no result."""
    found = [(run, run.outcome) for run in runs]
    # a time limit may end a run before its first validation
    outcomes = [outcome for _, outcome in found if outcome and outcome.result.get("valid")]
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
    failed = Counter(run.point.configuration for run, it in found if it not in outcomes)
    report_sweep(outcomes, source, c, failed, base)
    return 1 if failed else 0


LENGTH_OPTIONS = {
    f"training.{name}"
    for name in ("max_update", "max_epoch", "patience", "stop_time_hours", "stop_min_lr")
}
"""Options that may change when a run resumes: they only make it longer."""


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep."""

    point: GridPoint
    config: RunConfig
    user_dirs: Sequence[str]

    @property
    def folder(self) -> Path:
        return Path(self.config.checkpoint.save_dir)

    @property
    def outcome(self) -> Outcome | None:
        if not (self.folder / RESULT_FILE).exists():
            return None
        result = load_result(self.folder, to_dict(self.config))
        return None if result is None else Outcome(self.point, result)

    def check_same_options(self) -> None:
        """Raise if the folder has checkpoints or a result of other options."""
        try:
            saved = read_json(self.folder / OPTIONS_FILE, JsonObject, "", non_finite=True)
        except ToolkitError:
            return
        before, now = relevant_options(saved), relevant_options(to_dict(self.config))
        comparable = (before.keys() & now.keys()) - LENGTH_OPTIONS
        changed = {
            name: values for name, values in diff_configs(before, now).items() if name in comparable
        }
        kept = SaveFolder(self.folder).checkpoints() or (self.folder / RESULT_FILE).exists()
        if changed and kept:
            raise ToolkitError(
                f"Cannot resume this sweep with different options: in {self.folder} "
                f"{'; '.join(list_differences(changed))}. Restore them, or choose another "
                f"--save-dir."
            )

    def check_not_shorter(self) -> None:
        """Raise if the folder contains checkpoints of a longer run."""
        newest = next(iter(SaveFolder(self.folder).checkpoints()), None)
        match = CHECKPOINT_NAME.fullmatch(newest.name) if newest else None
        c = self.config.training
        for name, limit, done in (
            ("max_epoch", c.max_epoch, int(match[1]) if match else 0),
            ("max_update", c.max_update, int(match[2]) if match else 0),
        ):
            if limit is not None and done > limit:
                raise ToolkitError(
                    f"training.{name} is {limit}, but {newest} is from a longer run. Raise it, or "
                    f"choose another --save-dir."
                )

    def job(self, base: Path) -> SweepJob:
        """The job that trains this run, with its options in a file of its folder below `base`."""
        if self.folder.is_symlink():  # copied with the sweep's folder, it may lead anywhere
            raise ToolkitError(
                f"{self.folder} must be a folder to train in, but is a link. Delete it, or choose "
                f"another --save-dir."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        json_files.write_json(self.folder / OPTIONS_FILE, to_dict(self.config), indent=1)
        plugins = [f"--user-dir={folder}" for folder in self.user_dirs]
        command = [sys.executable, "-m", "toolkit.cli.train", *plugins]
        command += ["--config", str(self.folder / OPTIONS_FILE)]
        name = self.folder.relative_to(base).as_posix()
        return SweepJob(name=name, command=command, folder=self.folder)


def check_data_unchanged(runs: Sequence[SweepRun]) -> None:
    """Raise if a data folder was written again since a run last started to train on it."""
    now: dict[Path, str] = {}
    for run in runs:
        start = next(iter(read_complete_starts(run.folder)[-1:]), {})
        for record in start.get("data") or ():
            path = Path(start["working_directory"]) / record["folder"]
            before = record["fingerprint"]
            if not path.exists():
                continue
            if path not in now:
                now[path] = open_folder(path, run.config.data.languages).digest
            if now[path] != before:
                raise ToolkitError(
                    f"the runs of a sweep must have the same data, but {path} was changed after "
                    f"the run in {run.folder}: its fingerprint was {before[:12]} and is now "
                    f"{now[path][:12]}. Restore it, or choose another --save-dir."
                )
