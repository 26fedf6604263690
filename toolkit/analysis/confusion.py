"""Plots of confusion matrices: true classes as rows, predicted ones as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from toolkit.analysis.plot_style import Figure, new_plot, open_plot, parse_labels, write_plot
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import Count, JsonError, convert, name_file
from toolkit.config.commands.plot import ConfusionConfig
from toolkit.reporting.runs import read_log
from toolkit.reporting.tables import Table

INCHES_PER_CLASS = 0.3
MIN_INCHES, MARGIN = 2.4, 1.4  # inches of a matrix, and for its labels


@dataclass(frozen=True)
class ConfusionMatrix:
    """Confusions of one model on one split, as an event of toolkit-validate --json."""

    checkpoint: str
    subset: str
    true: Annotated[list[str], Meta(min_length=1)]
    predicted: Annotated[list[str], Meta(min_length=1)]
    counts: list[list[Count]]
    """Rows are true classes, columns predicted ones."""


def plot_confusion(config: ConfusionConfig) -> None:
    """Draw the confusion matrices in files of toolkit-validate --json, side by side."""
    matrices = [matrix for file in config.files for matrix in read_confusions(Path(file))]
    names = [f"{matrix.checkpoint} {matrix.subset}" for matrix in matrices]
    given = parse_labels(config.labels, names)
    titles = [given.get(name, name) for name in names]
    with open_plot(config) as output:
        write_plot(config, draw_confusions, matrices, titles)
        for matrix, title in zip(matrices, titles, strict=True):
            rows = list_mistakes(matrix)
            for true, predicted, count in rows:
                mistake = {"true": true, "predicted": predicted, "count": count}
                output.write("mistake", {"title": title, **mistake})
            columns = ("true", "predicted", "count")
            Table(columns=columns, rows=rows[:8], caption=title).print(output.console)
        output.write("end", {"output": config.output_file})
        output.print_line(f"wrote {config.output_file}")


def read_confusions(path: Path) -> list[ConfusionMatrix]:
    """The `confusion` events of a file."""
    found = [it for it in read_log(path) if it.get("event") == "confusion"]
    with name_file(path, "Name a file written by toolkit-validate --json."):
        matrices = [convert(it, ConfusionMatrix) for it in found]
        for it in matrices:
            if [len(row) for row in it.counts] != [len(it.predicted)] * len(it.true):
                raise JsonError(
                    "counts: must have a row for each true class, a column for each predicted"
                )
    if not matrices:
        raise ToolkitError(
            f"{path} must contain a confusion matrix, but does not. Write one with "
            f"toolkit-validate DATA --path CHECKPOINT --json FILE, for pos_tagging or glue."
        )
    return matrices


def list_mistakes(matrix: ConfusionMatrix) -> list[tuple[str, str, int]]:
    """(true class, predicted class, count) of all mistakes, most frequent first."""
    mistakes = [
        (matrix.true[y], matrix.predicted[x], matrix.counts[y][x])
        for y, x in np.argwhere(matrix.counts).tolist()
        if matrix.true[y] != matrix.predicted[x]
    ]
    return sorted(mistakes, key=lambda it: (-it[2], it))


def draw_confusions(matrices: Sequence[ConfusionMatrix], titles: Sequence[str]) -> Figure:
    """One panel per matrix: colors are fractions of a row, numbers are counts."""
    side = max(MIN_INCHES, INCHES_PER_CLASS * max(len(matrix.true) for matrix in matrices))
    fig = new_plot((side + MARGIN) * len(matrices), side + MARGIN)
    axes = fig.subplots(1, len(matrices), squeeze=False)[0]
    for ax, matrix, title in zip(axes, matrices, titles, strict=True):
        counts = np.array(matrix.counts, np.int64)
        fractions = counts / np.maximum(1, counts.sum(1, keepdims=True))
        ax.imshow(fractions, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        ax.set_xticks(range(len(matrix.predicted)), matrix.predicted, rotation=90)
        ax.set_yticks(range(len(matrix.true)), matrix.true)
        ax.set_xlabel("predicted class")
        ax.set_ylabel("true class")
        ax.set_title(title)
        if len(matrix.predicted) > 24:  # numbers would not fit into their cells
            continue
        for row, column in np.argwhere(counts).tolist():
            text = str(counts[row, column])
            color = "white" if fractions[row, column] > 0.55 else "black"
            ax.text(column, row, text, ha="center", va="center", fontsize="x-small", color=color)
    return fig
