"""GLUE's table from runs over seeds: each task's scores in percent, and the plain means over tasks.

python examples/glue/glue_table.py [--at best] [--by median] CoLA=RUNS RTE=RUNS MNLI=RUNS ...

RUNS is the save folder of a run or of a set of runs. Of a set of several configurations the best
one by --by is taken, and named. A mean over tasks is of each column; its deviation and error are
those of the seeds' own means, where all tasks have equally many.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.metrics.glue import EIGHT_TASKS, NINE_TASKS, glue_score
from toolkit.metrics.seed_summary import SeedSummary, summarize
from toolkit.reporting.event_log import Record
from toolkit.reporting.runs import LoggedRun, group_runs, read_runs
from toolkit.reporting.tables import Cell, Table

SUBSETS = {"valid": "", "valid_mismatched": "-mm"}
COLUMNS = ("n", "mean", "deviation", "error", "median", "best")
Scores = dict[str, list[float]]


def score(run: LoggedRun, subset: str, at: str) -> float | None:
    """In percent, of the last validation or of that with the best score on `valid`."""
    found = [r for r in run.records if r["event"] == "valid" and r.get("score") is not None]
    first = [r for r in found if r["subset"] == "valid"]
    if not first:
        return None
    chosen = max(first, key=percent) if at == "best" else first[-1]
    there = [r for r in found if r["subset"] == subset and r["update"] == chosen["update"]]
    return percent(there[-1]) if there else None


def percent(record: Record) -> float:
    """The score; correlations of constant answers, which are no numbers, count as 0."""
    value = float(record["score"])
    return 0.0 if math.isnan(value) else 100 * value


def scores(task: str, folder: str, at: str, by: str) -> tuple[Scores, str]:
    """Column -> the scores of all seeds (MNLI has two); and which of several configurations."""
    found: dict[str, Scores] = {}
    for name, runs in group_runs(read_runs([folder])).items():
        for subset, ending in SUBSETS.items():
            column = "MNLI-m" if task == "MNLI" and not ending else task + ending
            values = [value for run in runs if (value := score(run, subset, at)) is not None]
            if values:
                found.setdefault(name, {})[column] = values
    if not found:
        raise ToolkitError(
            f"a task must have runs with a validation score, but {task}'s in {folder} have none. "
            f"Train with --task glue and a validation split."
        )
    judged = {name: judge(next(iter(it.values())), by) for name, it in found.items()}
    best = max(judged, key=lambda name: judged[name])
    return found[best], best if len(found) > 1 else ""


def judge(values: Sequence[float], by: str) -> float:
    found = summarize(values)
    return {"mean": found.mean, "median": found.median, "best": found.maximum}[by]


def cells(s: SeedSummary) -> list[Cell]:
    return [s.n, s.mean, s.deviation, s.standard_error, s.median, s.maximum]


def over_tasks(columns: Mapping[str, Sequence[float]], names: tuple[str, ...]) -> list[Cell]:
    """The plain mean over tasks of means, medians and bests; the seeds' deviation and error."""
    found = {name: summarize(columns[name]) for name in names}
    mean, median, best = (
        glue_score({name: getattr(it, what) for name, it in found.items()}, names)
        for what in ("mean", "median", "maximum")
    )
    counts = {it.n for it in found.values()}
    if len(counts) > 1:
        return [None, mean, None, None, median, best]
    seeds = [glue_score({name: columns[name][i] for name in names}, names) for i in range(*counts)]
    kind = summarize(seeds)
    return [kind.n, mean, kind.deviation, kind.standard_error, median, best]


def table(given: Sequence[str], at: str = "last", by: str = "mean") -> Table:
    columns: Scores = {}
    settings: dict[str, str] = {}
    for word in given:
        task, _, folder = word.partition("=")
        if not folder:
            raise ToolkitError(f"runs must be given as TASK=FOLDER, but are given as {word!r}.")
        found, setting = scores(task, folder, at, by)
        columns |= found
        settings |= dict.fromkeys(found, setting)
    rows = [[name, *cells(summarize(values)), settings[name]] for name, values in columns.items()]
    for told, names in (("mean of nine", NINE_TASKS), ("mean of eight", EIGHT_TASKS)):
        if set(names) <= columns.keys():
            rows.append([told, *over_tasks(columns, names), ""])
    shown = 1 + len(COLUMNS) + any(settings.values())
    return Table(
        columns=["task", *COLUMNS, "configuration"][:shown],
        rows=[row[:shown] for row in rows],
        shared_precision=[name for name in COLUMNS if name != "n"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", help="TASK=FOLDER, of runs or sets of runs")
    parser.add_argument("--at", default="last", choices=("last", "best"), help="which validation")
    parser.add_argument(
        "--by", default="mean", choices=("mean", "median", "best"), help="which configuration"
    )
    asked = parser.parse_args()
    try:
        print(table(asked.runs, asked.at, asked.by).markdown(), end="")
    except ToolkitError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
