"""Perplexities of the runs of novels.sh: python table.py RUNS.

Of the held-out text after the last update, by token and by word: mean and deviation over seeds.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from toolkit.metrics.runs import Run, read_runs
from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table

KINDS = ("absolute", "relative", "neither")
FIGURES = ("ppl", "word_ppl", "loss")


def positions(run: Run) -> str:
    """How a model knows where words stand."""
    added, terms = run.options["arch.positions"], run.options["arch.relative"]
    return ", ".join(it for it in (added, terms) if it != "none") or "neither"


def figures(run: Run) -> dict[str, float]:
    """Those of the last validation."""
    found = [r for r in run.records if r["event"] == "valid" and r["subset"] == "valid"][-1]
    return {name: float(found[name]) for name in FIGURES}


def cell(values: list[float]) -> str:
    found = summary(values)
    return f"{found.mean:.3f}" + (f" ± {found.deviation:.3f}" if found.deviation else "")


def table(folder: Path) -> Table:
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for run in read_runs([folder / kind for kind in KINDS if (folder / kind).exists()]):
        found[positions(run)].append(figures(run))
    rows: list[list[str | int]] = [
        [name, len(each), *(cell([it[key] for it in each]) for key in FIGURES)]
        for name, each in found.items()
    ]
    return Table(columns=("positions", "seeds", *FIGURES), rows=rows, numbers=FIGURES)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])).markdown(), end="")
