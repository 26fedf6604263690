"""CoLA from composite and from absolute positions: python examples/glue/positions.py RUNS"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from toolkit.metrics.runs import read_runs
from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table


def scores(folder: Path) -> list[float]:
    """Matthews' coefficient in percent, of each seed's last validation."""
    runs = read_runs([folder / "CoLA"])
    valid = [[r for r in run.records if r["event"] == "valid"] for run in runs]
    return [100 * float(records[-1]["matthews"]) for records in valid]


def pretrained(runs: Path, name: str) -> dict[str, Any]:
    """What pre-training came to."""
    (run,) = read_runs([runs / "pretrained" / f"arch=table1_{name},seed=0"])
    return [r for r in run.records if r["event"] == "valid"][-1]


def table(runs: Path) -> Table:
    names = ("composite", "absolute")
    found = {name: summary(scores(runs / name)) for name in names}
    rows = [
        [
            name,
            pretrained(runs, name)["loss"],
            s.n,
            s.mean,
            s.deviation,
            s.error,
            s.median,
            s.maximum,
        ]
        for name, s in found.items()
    ]
    one, other = found.values()
    error = ((one.error or 0) ** 2 + (other.error or 0) ** 2) ** 0.5
    rows.append(["difference", None, None, one.mean - other.mean, None, error, None, None])
    figures = ["mean", "deviation", "error", "median", "best"]
    columns = ["positions", "loss of pre-training", "n", *figures]
    return Table(columns=columns, rows=rows, together=figures)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])).markdown(), end="")
