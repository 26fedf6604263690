"""GLUE's table from runs: scores of every task in percent, and their means over tasks.

python examples/glue/glue_table.py [--at best] [--by median] CoLA=RUNS RTE=RUNS MNLI=RUNS ...

RUNS is the save directory of a run or of a sweep. Of several configurations the table shows the
best by --by, and its name. Means over tasks are taken for each column. Their deviation and error
are those of the seeds' means, if all tasks have the same number of seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.metrics.seeds import SeedSummary, summarize
from toolkit.reporting.runs import LoggedRun, group_runs, read_runs
from toolkit.reporting.tables import Cell, Table

SUBSETS = {"valid": "", "valid_mismatched": "-mm"}
COLUMNS = ("n", "mean", "deviation", "error", "median", "best")
Scores = dict[str, list[float]]

TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "QNLI", "RTE")
NINE_TASKS = (*TASKS, "MNLI-m", "MNLI-mm")
"""Chang et al. 2021: both parts of MNLI, without WNLI."""
EIGHT_TASKS = (*TASKS, "MNLI-m")
"""TACO and ConvBERT: eight tasks, MNLI as one."""


def score(run: LoggedRun, subset: str, at: str) -> float | None:
    """Score in percent of the last validation, or of the one with the best score on `valid`."""
    scored = [r for r in run.records if r["event"] == "valid" and r.get("score") is not None]
    validations = [r for r in scored if r["subset"] == "valid"]
    if not validations:
        return None
    selected = max(validations, key=percent) if at == "best" else validations[-1]
    same = [r for r in scored if r["subset"] == subset and r["update"] == selected["update"]]
    return percent(same[-1]) if same else None


def percent(record: JsonObject) -> float:
    """Score in percent; the undefined correlation of constant predictions counts as 0."""
    value = float(record["score"])
    return 0.0 if math.isnan(value) else 100 * value


def scores(task: str, folder: str, at: str, by: str) -> tuple[Scores, str]:
    """Scores of all seeds by column (MNLI has two), and the name of the selected configuration."""
    by_configuration: dict[str, Scores] = {}
    for name, runs in group_runs(read_runs([folder])).items():
        for subset, ending in SUBSETS.items():
            column = "MNLI-m" if task == "MNLI" and not ending else task + ending
            values = [value for run in runs if (value := score(run, subset, at)) is not None]
            if values:
                by_configuration.setdefault(name, {})[column] = values
    if not by_configuration:
        raise ToolkitError(
            f"the runs of {task} in {folder} have no validation score. Train with --task glue and "
            f"a validation split."
        )
    ranked = {name: rank(next(iter(it.values())), by) for name, it in by_configuration.items()}
    best = max(ranked, key=lambda name: ranked[name])
    return by_configuration[best], best if len(by_configuration) > 1 else ""


def rank(values: Sequence[float], by: str) -> float:
    summary = summarize(values)
    return {"mean": summary.mean, "median": summary.median, "best": summary.maximum}[by]


def cells(s: SeedSummary) -> list[Cell]:
    return [s.n, s.mean, s.deviation, s.standard_error, s.median, s.maximum]


def over_tasks(columns: Mapping[str, Sequence[float]], names: tuple[str, ...]) -> list[Cell]:
    """Unweighted means over tasks; deviation and error of the seeds' means."""
    summaries = {name: summarize(columns[name]) for name in names}
    mean, median, best = (
        sum(getattr(it, what) for it in summaries.values()) / len(names)
        for what in ("mean", "median", "maximum")
    )
    counts = {it.n for it in summaries.values()}
    if len(counts) > 1:
        return [None, mean, None, None, median, best]
    seeds = [sum(columns[name][i] for name in names) / len(names) for i in range(*counts)]
    summary = summarize(seeds)
    return [summary.n, mean, summary.deviation, summary.standard_error, median, best]


def table(words: Sequence[str], at: str = "last", by: str = "mean") -> Table:
    columns: Scores = {}
    settings: dict[str, str] = {}
    for word in words:
        task, _, folder = word.partition("=")
        if not folder:
            raise ToolkitError(f"expected TASK=FOLDER, got {word!r}.")
        task_scores, setting = scores(task, folder, at, by)
        columns |= task_scores
        settings |= dict.fromkeys(task_scores, setting)
    rows = [[name, *cells(summarize(values)), settings[name]] for name, values in columns.items()]
    for title, names in (("mean of nine", NINE_TASKS), ("mean of eight", EIGHT_TASKS)):
        if set(names) <= columns.keys():
            rows.append([title, *over_tasks(columns, names), ""])
    width = 1 + len(COLUMNS) + any(settings.values())
    return Table(
        columns=["task", *COLUMNS, "configuration"][:width],
        rows=[row[:width] for row in rows],
        shared_precision=[name for name in COLUMNS if name != "n"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", help="TASK=FOLDER: save directory of a run or sweep")
    parser.add_argument(
        "--at", default="last", choices=("last", "best"), help="validation that counts"
    )
    parser.add_argument(
        "--by",
        default="mean",
        choices=("mean", "median", "best"),
        help="how to select a configuration",
    )
    args = parser.parse_args()
    try:
        print(table(args.runs, args.at, args.by).markdown(), end="")
    except ToolkitError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
