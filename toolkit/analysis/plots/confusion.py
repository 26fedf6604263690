"""Plots of confusion matrices: true classes as rows, predicted ones as columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.analysis.plots.style import new_figure, save_figure
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import ConfusionConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

INCHES_PER_CLASS = 0.3
MIN_INCHES, MARGIN = 2.4, 1.4  # inches of a panel's side, and for its labels
MAX_ANNOTATED_CLASSES = 24  # classes up to which the numbers stand in the cells
DARK_CELL = 0.55  # share of a row from which numbers are white


class ConfusionMatrix(NamedTuple):
    """Confusions of one model on one split."""

    title: str
    true: Sequence[str]
    predicted: Sequence[str]
    counts: Any
    """Rows are true classes, columns predicted ones."""


def plot_confusion(config: ConfusionConfig) -> None:
    """Draw the confusion matrices in files of toolkit-validate --json, side by side."""
    found = [table for name in config.files for table in read_confusions(Path(name))]
    with Output(config.json) as output:
        figure = draw_confusions(found, config.title)
        save_figure(figure, config.output_file)
        for it in found:
            rows = list_mistakes(it)
            for true, predicted, count in rows:
                event = {"title": it.title, "true": true, "predicted": predicted, "count": count}
                output.write("mistake", event)
            Table(columns=("true", "predicted", "count"), rows=rows[:8], caption=it.title).print(
                output.console
            )
        output.write("end", {"output": config.output_file})
        output.console.print(f"wrote {config.output_file}", highlight=False, soft_wrap=True)


def read_confusions(path: Path) -> list[ConfusionMatrix]:
    """The `confusion` events of a file."""
    try:
        lines = path.read_text("utf-8").split("\n")
        events = [json_files.loads(line) for line in lines if line]
        found = [it for it in events if it.get("event") == "confusion"]
        tables = [
            ConfusionMatrix(
                matrix_title(it), it["true"], it["predicted"], np.array(it["counts"], np.int64)
            )
            for it in found
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as e:
        raise ToolkitError(
            f"{path} must be a file written by toolkit-validate --json, but is not: {e}."
        ) from e
    if not tables:
        raise ToolkitError(
            f"{path} must contain a confusion matrix, but does not. Write one with "
            f"toolkit-validate DATA --path CHECKPOINT --json FILE, for pos_tagging or glue."
        )
    return tables


def matrix_title(event: Any) -> str:
    return f"{event['checkpoint']} {event['subset']}"


def list_mistakes(table: ConfusionMatrix) -> list[tuple[str, str, int]]:
    """Mistakes, most frequent first."""
    found = [
        (table.true[g], table.predicted[p], int(table.counts[g, p]))
        for g, p in np.argwhere(table.counts).tolist()
        if table.true[g] != table.predicted[p]
    ]
    return sorted(found, key=lambda it: (-it[2], it))


def draw_confusions(tables: Sequence[ConfusionMatrix], heading: str) -> Any:
    """One panel per matrix: colors are shares of a row, numbers are counts."""
    side = max(MIN_INCHES, INCHES_PER_CLASS * max(len(t.true) for t in tables))
    figure = new_figure((side + MARGIN) * len(tables), side + MARGIN)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    for panel, table in zip(panels, tables, strict=True):
        shares = table.counts / np.maximum(1, table.counts.sum(1, keepdims=True))
        panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        panel.set_xticks(range(len(table.predicted)), table.predicted, rotation=90, fontsize=7)
        panel.set_yticks(range(len(table.true)), table.true, fontsize=7)
        panel.set_xlabel("predicted", fontsize=8)
        panel.set_ylabel("true", fontsize=8)
        panel.set_title(table.title, fontsize=8)
        if len(table.predicted) <= MAX_ANNOTATED_CLASSES:
            annotate_cells(panel, table.counts, shares)
    if heading:
        figure.suptitle(heading, fontsize=10)
    return figure


def annotate_cells(panel: Any, counts: Any, shares: Any) -> None:
    for row, column in np.argwhere(counts).tolist():
        color = "white" if shares[row, column] > DARK_CELL else "black"
        text = str(counts[row, column])
        panel.text(column, row, text, ha="center", va="center", fontsize=5, color=color)
