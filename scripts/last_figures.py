"""The last validation of runs, mean and deviation over seeds, as a Markdown table.

python scripts/last_figures.py mlm_loss,auc RUN_FOLDER...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from toolkit.common.errors import ToolkitError
from toolkit.metrics.runs import Run, grouped, read_runs
from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table


def last(run: Run, figure: str) -> float:
    """Of the run's latest validation, on the first of its splits."""
    found = [r for r in run.records if r["event"] == "valid"]
    of_first = [r for r in found if r["subset"] == found[0]["subset"]]
    if not of_first or figure not in of_first[-1]:
        raise ToolkitError(
            f"a run must have a validation that tells {figure}, but {run.folder} has none."
        )
    return float(of_first[-1][figure])


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
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        print(table(sys.argv[1].split(","), sys.argv[2:]).markdown(), end="")
    except ToolkitError as error:
        raise SystemExit(str(error)) from None
