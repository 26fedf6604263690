"""What a sweep ends with: tables on the console and in files, and learning curves."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median_low

from toolkit.analysis.curve import draw_curves
from toolkit.common.errors import ToolkitError
from toolkit.common.files import write_output
from toolkit.config.commands.plot import CurveConfig
from toolkit.config.commands.train import SweepConfig
from toolkit.reporting.console import Console
from toolkit.reporting.runs import METRICS_FILE, read_runs
from toolkit.reporting.tables import Cell, Table
from toolkit.sweep.ranking import (
    SIGNIFICANCE,
    Comparison,
    Configuration,
    MetricSource,
    Outcome,
    group_by_configuration,
    index_of_best,
    rank_configurations,
)

MAX_DRAWN = 500
"""Maximum number of runs whose learning curves are drawn."""


def report_sweep(
    outcomes: Sequence[Outcome],
    source: MetricSource,
    c: SweepConfig,
    failed: Mapping[str, int],
    folder: Path,
) -> None:
    """Print the tables, write them as sweep.md, sweep.tex and sweep.json, and draw the curves."""
    configurations = group_by_configuration(outcomes, source)
    ranking = rank_configurations(configurations, source.metric, c.rank_by)
    table = comparison_table(ranking, source, c.rank_by, failed)
    others = {"tuned": tuned_table(ranking, source, c)} if c.ranges() else {}
    others["cost"] = cost_table(ranking, source)
    tables = [table, *others.values()]
    console = Console()
    for one in tables:
        one.print(console)
    more = {name: one.values() for name, one in others.items()}
    statistics = {
        "best": ranking.best,
        "summaries": [asdict(row.summary) for row in ranking.rows],
        "differences": [row.difference and asdict(row.difference) for row in ranking.rows],
    }
    runs = [
        {"name": point.name, "values": dict(point.values), "seed": point.seed}
        | {key: result[key] for key in ("updates", "seconds", "valid", "best")}
        for point, result in outcomes
    ]
    for suffix, text in (
        ("md", "\n".join(one.markdown() for one in tables)),
        ("tex", "\n".join(one.latex() for one in tables)),
        ("json", table.json(**more, **statistics, runs=runs)),
    ):
        write_output(folder / f"sweep.{suffix}", text)
    draw_learning_curves(outcomes, source, folder)


def tuned_table(ranking: Comparison, source: MetricSource, c: SweepConfig) -> Table:
    """The comparison of the variants, each with the best values of its tuned options."""
    tuned = list(c.ranges())
    chosen = best_of_each_variant(ranking, tuned, source.metric)
    caption = f"{source}, best {' and '.join(tuned)} of each variant"
    return replace(comparison_table(chosen, source, c.rank_by, failed={}), caption=caption)


def draw_learning_curves(outcomes: Sequence[Outcome], source: MetricSource, folder: Path) -> None:
    """Draw the compared metric of the compared runs over the updates as sweep.png, if possible."""
    runs = [str(folder / point.name) for point, _ in outcomes]
    runs = [run for run in runs if Path(run, METRICS_FILE).exists()]
    image = folder / "sweep.png"
    if len(runs) > MAX_DRAWN:
        print(f"no learning curves of {len(runs)} runs: toolkit-plot curve draws some of them")
        return
    if image.is_symlink():  # a plot is written to the target of a link
        image.unlink()
    try:
        subset = [source.subset] * (source.subset != "valid")  # training, if validated once
        c = CurveConfig(runs=runs, output=str(image), metric=[source.metric], subset=subset)
        draw_curves(read_runs(runs), c)
    except ToolkitError as error:
        print(f"no learning curves: {error}", file=sys.stderr)
        return
    print(f"learning curves in {image}, the tables in {folder / 'sweep'}.md, .tex and .json")


SUMMARY = ("mean", "deviation")


def comparison_table(
    ranking: Comparison, source: MetricSource, rank_by: str, failed: Mapping[str, int]
) -> Table:
    """Summary of each row, and its difference from the best row on equal seeds.

    Rows that are not distinguishable from the best are marked. `failed` counts runs without result.
    """
    rows, several = ranking.rows, len(ranking.rows) > 1
    columns: dict[str, list[Cell]] = option_columns(rows)
    for name in (*SUMMARY, *([] if rank_by == "mean" else [rank_by]), "n"):
        columns[name] = [
            row.value if name == "best" else getattr(row.summary, name) for row in rows
        ]
    if several:
        columns |= difference_columns(rows)
    if failed:
        columns["failed"] = [failed.get(r.point.configuration, 0) for r in rows]
    notes = [describe_tests(ranking)] if several else []
    shown = {row.point.configuration for row in rows}
    notes += [
        f"no result: {name} ({count} run{'s' * (count > 1)})"
        for name, count in failed.items()
        if name not in shown
    ]
    results = [result for row in rows for _, result in row.outcomes]
    if ended := sum(bool(result.get("out_of_time")) for result in results):
        verb = "runs were" if ended > 1 else "run was"
        notes.append(f"{ended} {verb} ended by --training.stop-time-hours")
    distinct = [it.p is not None and it.p <= SIGNIFICANCE for it in rows]
    best = [i for i, row in enumerate(rows) if math.isfinite(row.value) and not distinct[i]]
    marked = best if several else []
    return Table(
        columns=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        marked=marked,
        shared_precision=[*SUMMARY, rank_by, "difference", "low", "high"],
        caption=str(source),
        note="; ".join(notes),
    )


def option_columns(configurations: Sequence[Configuration]) -> dict[str, list[Cell]]:
    """A column per option of the grid; without a grid, one that says so."""
    options = list(configurations[0].point.values)
    columns: dict[str, list[Cell]] = {
        name: [c.point.values[name] for c in configurations] for name in options
    }
    return columns or {"runs": ["all seeds" for _ in configurations]}


def difference_columns(rows: Sequence[Configuration]) -> dict[str, list[Cell]]:
    """Mean difference, its interval, p-values; number of pairs where it is not that of seeds."""
    found = [row.difference for row in rows]
    columns: dict[str, list[Cell]] = {
        "difference": [None if d is None else d.mean for d in found],
        "low": [None if d is None else d.low for d in found],
        "high": [None if d is None else d.high for d in found],
        "p": [row.p for row in rows],
        "sign_p": [row.sign_p for row in rows],
    }
    if any(row.difference and row.difference.n != row.summary.n for row in rows):
        columns["pairs"] = [None if d is None else d.n for d in found]
    return columns


def describe_tests(ranking: Comparison) -> str:
    """One line: what the marks mean, and what they rest on."""
    if not ranking.tests:
        return (
            "marked: every row, since without two equal seeds there is no interval and no test. "
            "Add --seeds 0,1,2,3,4."
        )
    corrected = f", corrected for all {ranking.tests} pairs of rows" if ranking.tests > 1 else ""
    return (
        f"marked: not distinguishable from the best, p > {SIGNIFICANCE:g} in a paired t-test over "
        f"equal seeds{corrected}; low, high: 95% interval of the difference"
    )


def best_of_each_variant(ranking: Comparison, tuned: Collection[str], metric: str) -> Comparison:
    """One row per variant, which is what the options that are not tuned have in common.

    The corrected p-values stay those of all configurations, among which these were chosen.
    """
    variants: dict[tuple[str, ...], list[Configuration]] = {}
    for row in ranking.rows:
        values = row.point.values
        variant = tuple(value for option, value in values.items() if option not in tuned)
        variants.setdefault(variant, []).append(row)
    chosen = [
        rows[index_of_best([row.value for row in rows], metric) or 0] for rows in variants.values()
    ]
    return replace(ranking, rows=chosen, best=index_of_best([it.value for it in chosen], metric))


def cost_table(ranking: Comparison, source: MetricSource) -> Table:
    """Parameters, FLOPs of an update per token, and the last report of speed and memory.

    Each is the median over the seeds: a run that shared its processor may have been slow.
    """
    columns = option_columns(ranking.rows)
    columns[source.metric] = [row.value for row in ranking.rows]
    for name in ("parameters", "flops_per_token", "tokens_per_second", "peak_memory_gib"):
        found = [
            [result.get(name, result.get("train", {}).get(name)) for _, result in row.outcomes]
            for row in ranking.rows
        ]
        known = [[cost for cost in costs if cost is not None] for costs in found]
        columns[name] = [median_low(costs) if costs else None for costs in known]
    return Table(
        columns=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption="cost: median of the seeds",
    )
