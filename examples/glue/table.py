"""Scores of pre-trained encoders, of the same from scratch, and of the majority, in percent.

python examples/glue/table.py DATA FOLDER...   (DATA/TASK is binarized, FOLDER/TASK a set of runs)
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

from toolkit.data.folder import DataFolder
from toolkit.data.labelled.split import LabelledSplit
from toolkit.metrics.agreement import OF_CLASSES, OF_NUMBERS
from toolkit.metrics.runs import Run, read_runs
from toolkit.metrics.summary import summary
from toolkit.metrics.tables import Table


def majority(folder: Path) -> float:
    """The score of answering as most of the training part does; a number's mean tells nothing."""
    data = DataFolder.open(str(folder))
    train, valid = LabelledSplit(data, "train"), LabelledSplit(data, "valid")
    if valid.number:
        given = np.full(len(valid), train.answers.mean())
    else:
        given = np.full(len(valid), np.bincount(train.answers).argmax())
    figures = {**OF_CLASSES, **OF_NUMBERS}
    found = [figures[name](valid.answers, given) for name in valid.labels.figures]
    return 100 * float(np.mean([0.0 if math.isnan(value) else value for value in found]))


def last(run: Run) -> float:
    """The score of the last validation; that of constant answers is 0."""
    found = [r for r in run.records if r["event"] == "valid" and r["subset"] == "valid"][-1]
    value = float(found["score"])
    return 0.0 if math.isnan(value) else 100 * value


def cell(folder: Path) -> str:
    if not folder.exists():
        return "-"
    found = summary([last(run) for run in read_runs([folder])])
    return f"{found.mean:.1f}" + (f" ± {found.deviation:.1f}" if found.deviation else "")


def table(data: Path, folders: list[Path]) -> Table:
    tasks = [path.name for path in sorted(data.iterdir()) if (path / "meta.json").exists()]
    rows = [
        [
            task,
            " and ".join(LabelledSplit(DataFolder.open(str(data / task)), "valid").labels.figures),
            f"{majority(data / task):.1f}",
            *(cell(folder / task) for folder in folders),
        ]
        for task in tasks
    ]
    columns = ["task", "figures", "majority", *(folder.name for folder in folders)]
    return Table(columns=columns, rows=rows, numbers=columns[2:])


if __name__ == "__main__":
    print(table(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]).markdown(), end="")
