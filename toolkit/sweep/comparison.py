"""Comparison table of a sweep: one row per configuration, next to the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.reporting.tables import Cell, Table
from toolkit.sweep.outcomes import MetricSource
from toolkit.sweep.pairing import Configuration
from toolkit.sweep.ranking import SIGNIFICANCE, RankedRow, Ranking

SUMMARY = ("mean", "deviation")
DIFFERENCE = ("difference", "low", "high")
TESTS = ("p", "sign_p")


def comparison_table(
    ranking: Ranking, source: MetricSource, rank_by: str, failed: Mapping[str, int]
) -> Table:
    """Summary of each row, and its difference from the best row on equal seeds.

    Rows that are not distinguishable from the best are marked. `failed` counts the runs without
    result of each configuration, in a separate column.
    """
    rows, several = ranking.rows, len(ranking.rows) > 1
    columns: dict[str, list[Cell]] = option_columns([row.configuration for row in rows])
    for name in (*SUMMARY, *([] if rank_by == "mean" else [rank_by]), "n"):
        columns[name] = [summary_cell(row, name) for row in rows]
    if several:
        columns |= difference_columns(rows)
    if failed:
        columns["failed"] = [failed.get(r.configuration.point.configuration, 0) for r in rows]
    notes = [describe_tests(ranking)] if several else []
    notes += describe_incomplete(rows, failed)
    marked = [i for i, row in enumerate(rows) if row.is_among_the_best] if several else []
    return Table(
        columns=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        marked=marked,
        shared_precision=[*SUMMARY, rank_by, *DIFFERENCE],
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


def summary_cell(row: RankedRow, name: str) -> Cell:
    """A cell of the comparison table."""
    cell: Cell = row.value if name == "best" else getattr(row.configuration.summary, name)
    return cell


def difference_columns(rows: Sequence[RankedRow]) -> dict[str, list[Cell]]:
    """Mean difference, its interval, p-values; number of pairs where it is not that of seeds."""
    found = [row.difference for row in rows]
    columns: dict[str, list[Cell]] = {
        "difference": [None if d is None else d.mean for d in found],
        "low": [None if d is None else d.low for d in found],
        "high": [None if d is None else d.high for d in found],
        "p": [row.p for row in rows],
        "sign_p": [row.sign_p for row in rows],
    }
    if any(d and d.n != row.configuration.summary.n for d, row in zip(found, rows, strict=True)):
        columns["pairs"] = [None if d is None else d.n for d in found]
    return columns


def describe_tests(ranking: Ranking) -> str:
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


def describe_incomplete(rows: Sequence[RankedRow], failed: Mapping[str, int]) -> list[str]:
    """Configurations of which no run has a result, and runs that a time limit ended."""
    shown = {row.configuration.point.configuration for row in rows}
    missing = {name: count for name, count in failed.items() if name not in shown}
    notes = [
        f"no result: {name} ({count} run{'s' * (count > 1)})" for name, count in missing.items()
    ]
    ended = sum(row.configuration.out_of_time for row in rows)
    if ended:
        verb = "runs were" if ended > 1 else "run was"
        notes.append(f"{ended} {verb} ended by --training.stop-time-hours")
    return notes
