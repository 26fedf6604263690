"""The last validation of runs, mean and deviation over seeds, as a Markdown table.

python scripts/last_figures.py mlm_loss,auc RUN_FOLDER...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.metrics.runs import Run, grouped, read_runs
from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table


def last(run: Run, figure: str) -> float:
    """Of the run's latest validation."""
    return float([r for r in run.records if r["event"] == "valid"][-1][figure])


def cell(values: Sequence[float]) -> str:
    found = summary(values)
    return f"{found.mean:.4f}" + (f" ± {found.deviation:.4f}" if found.deviation else "")


def table(figures: Sequence[str], folders: Sequence[str]) -> Table:
    """A row for each configuration: mean and standard deviation over its seeds."""
    rows = [
        [name, len(runs), *(cell([last(run, figure) for run in runs]) for figure in figures)]
        for name, runs in grouped(read_runs(folders)).items()
    ]
    return Table(columns=["", "n", *figures], rows=rows)


if __name__ == "__main__":
    print(table(sys.argv[1].split(","), sys.argv[2:]).markdown(), end="")
