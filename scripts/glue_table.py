"""GLUE's table from runs: each task's best score over seeds, and the plain mean of the tasks.

python scripts/glue_table.py CoLA=RUNS RTE=RUNS MNLI=RUNS ...   (RUNS: a run or a set of seeds)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.metrics.glue_score import EIGHT, NINE, glue_score
from toolkit.metrics.runs import Run, read_runs
from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table

SUBSETS = {"valid": "", "valid_mismatched": "-mm"}


def best(run: Run, subset: str) -> float | None:
    """The highest score, in percent; None where the run has no such subset."""
    found = [r for r in run.records if r["event"] == "valid" and r["subset"] == subset]
    return max((100 * float(r["score"]) for r in found), default=None)


def scores(task: str, folder: str) -> dict[str, list[float]]:
    """Column of the table -> the scores of all seeds; MNLI has two columns."""
    columns = {}
    for subset, ending in SUBSETS.items():
        found = [best(run, subset) for run in read_runs([folder])]
        name = "MNLI-m" if task == "MNLI" and not ending else task + ending
        columns[name] = [score for score in found if score is not None]
    return {name: values for name, values in columns.items() if values}


def table(given: Sequence[str]) -> Table:
    columns: dict[str, list[float]] = {}
    for word in given:
        columns |= scores(*word.split("=", 1))
    found = {name: summary(values) for name, values in columns.items()}
    rows = [[name, len(columns[name]), it.mean, it.deviation] for name, it in found.items()]
    means = {name: it.mean for name, it in found.items()}
    for told, wanted in (("mean of nine", NINE), ("mean of eight", EIGHT)):
        if set(wanted) <= means.keys():
            rows.append([told, None, glue_score(means, wanted), None])
    return Table(columns=["task", "n", "score", "deviation"], rows=rows)


if __name__ == "__main__":
    print(table(sys.argv[1:]).markdown(), end="")
