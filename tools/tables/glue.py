"""GLUE from pre-trained encoders and from scratch; SQuAD, RACE and CODAH."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group, select_experiment
from table_cells import Rows, deviation, mean, spread, standard_error

METRICS = {
    "CoLA": "Matthews",
    "MNLI": "accuracy",
    "MRPC": "accuracy and F1",
    "QNLI": "accuracy",
    "QQP": "accuracy and F1",
    "SST-2": "accuracy",
    "STS-B": "Pearson and Spearman",
}
HEAD = ["positions", "pre-training loss", "seeds", "mean", "deviation", "error", "median", "best"]


def scores(runs: list[Run]) -> list[float]:
    """Scores in percent; that of constant predictions is 0."""
    values = [run.last("score") for run in runs]
    return [0.0 if math.isnan(value) else 100 * value for value in values]


def by_task(runs: list[Run], majority: dict[str, float]) -> Rows:
    rows = [["task", "metrics", "majority class", "pre-trained", "from scratch"]]
    for task, metrics in METRICS.items():
        names = ("composite", "scratch")
        values = [scores(select_experiment(runs, f"{name}/{task}")) for name in names]
        if any(values):
            cells = [spread(it, 1) if it else "-" for it in values]
            rows.append([task, metrics, f"{majority[task]:.1f}", *cells])
    return rows


def positions(runs: list[Run]) -> Rows:
    rows, means, errors = [HEAD], [], []
    for name in ("composite", "absolute"):
        pretrained = [r for r in runs if r.name == f"pretrained/arch=table1_{name},seed=0"]
        values = scores(select_experiment(runs, f"{name}/CoLA"))
        if not values:
            return [HEAD]
        means.append(statistics.mean(values))
        errors.append(standard_error(values))
        loss = mean([run.last("loss") for run in pretrained], 3)
        more = (deviation(values), errors[-1], statistics.median(values), max(values))
        cells = (f"{value:.1f}" for value in (means[-1], *more))
        rows.append([name, loss, str(len(values)), *cells])
    difference, error = f"{means[0] - means[1]:.1f}", f"{math.hypot(*errors):.1f}"
    return [*rows, ["difference", "-", "-", difference, "-", error, "-", "-"]]


def first_attempt(runs: list[Run]) -> Rows:
    first = select_experiment(runs, "first")
    of = {
        (name, task): scores(select_experiment(first, f"first/{name}/{task}"))
        for name in ("composite", "scratch", "absolute")
        for task in ("CoLA", "MRPC", "STS-B")
    }
    rows = [["task", "composite, pre-trained", "composite, from scratch", "absolute, pre-trained"]]
    for task in ("CoLA", "MRPC", "STS-B") if first else ():
        cells = [of[name, task] for name in ("composite", "scratch", "absolute")]
        rows.append([task, *(spread(it, 1) if it else "-" for it in cells)])
    return rows


def questions(runs: list[Run]) -> Rows:
    """SQuAD, RACE and CODAH with the composite model of the first attempt."""
    by_task = group(select_experiment(runs, "first"), lambda run: run.name.split("/")[1])
    if not {"squad", "squad_untrained", "race", "codah"} <= by_task.keys():
        return [[]]
    squad = [
        f"F1 {100 * run.last('f1'):.1f}, EM {100 * run.last('exact_match'):.1f}"
        for run in (*by_task["squad"], *by_task["squad_untrained"])
    ]
    [race] = by_task["race"]
    parts = [f"{100 * race.last(f'{part}_accuracy'):.1f}" for part in ("middle", "high")]
    choices = f"{100 * race.last('accuracy'):.1f}% (middle {parts[0]}, high {parts[1]})"
    codah = f"{spread([run.last('accuracy') for run in by_task['codah']], 1, 100)}%, three seeds"
    untrained = f"{squad[1]}: the net after one update at rate 1e-9"
    return [
        ["benchmark", "training questions", "epochs", "score", "without learning"],
        ["SQuAD 1.1, 44 + 24 articles", "11,877", "4", squad[0], untrained],
        ["RACE, 2,500 + 484 passages", "9,478", "3", choices, "25%: chance"],
        ["CODAH", "1,665", "5", codah, "25%: chance"],
    ]


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    prefix = "results/"
    of_results = [run for run in runs if run.name.startswith(prefix)] or runs
    results = [Run(r.name.removeprefix(prefix), r.record, r.validations) for r in of_results]
    majority = json.loads((source / "majority.json").read_text("utf-8"))
    yield "tasks", by_task(results, majority)
    yield "positions", positions(results)
    yield "first", first_attempt(runs)
    yield "questions", questions(runs)
