"""Validation loss of the five rows of Chang et al. 2021, Table 1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group
from table_cells import Rows, deviation, mean

ROWS = ("none", "absolute", "fixed", "dynamic", "composite")
HEAD = ["positions", "loss, mean", "standard deviation", "seeds", "minimum", "maximum", "accuracy"]


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    by_row = group(runs, lambda run: run.arch.removeprefix("table1_"))
    rows = [HEAD]
    for name in (row for row in ROWS if row in by_row):
        losses = [run.last("loss") for run in by_row[name]]
        limits = [f"{deviation(losses):.3f}", str(len(losses)), f"{min(losses):.3f}"]
        limits.append(f"{max(losses):.3f}")
        accuracy = mean([run.last("accuracy") for run in by_row[name]], 3)
        rows.append([name, mean(losses, 3), *limits, accuracy])
    yield "novels", rows
