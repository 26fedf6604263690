"""Which tag was taken for which, drawn: true ones down, given ones across."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.analysis.plots.style import new_figure, save
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PlotConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.tables import Table

INCHES_PER_CLASS = 0.3
SMALLEST, MARGIN = 2.4, 1.4  # inches of a panel's side, and for its labels
NUMBERED = 24  # classes up to which the numbers stand in the cells
DARK = 0.55  # share of a row from which numbers are white


class Confusions(NamedTuple):
    """One model on one split."""

    title: str
    true: Sequence[str]
    given: Sequence[str]
    counts: Any
    """Rows are true classes, columns given ones."""


def confusion(config: PlotConfig) -> None:
    """Draw the confusions in files that toolkit-validate --json wrote, side by side."""
    found = [table for name in config.runs for table in read(Path(name))]
    with Output(config.json) as output:
        figure = draw(found, config.title)
        save(figure, config.picture)
        for it in found:
            rows = counted(it)
            for true, given, count in rows:
                output.write("mistake", {"of": it.title, "is": true, "given": given, "n": count})
            Table(columns=("is", "given", "n"), rows=rows[:8], caption=it.title).print(
                output.terminal
            )
        output.write("end", {"picture": config.picture})
        output.terminal.print(f"wrote {config.picture}", highlight=False, soft_wrap=True)


def read(path: Path) -> list[Confusions]:
    """The events `confusion` of a file of JSON lines."""
    try:
        lines = path.read_text("utf-8").split("\n")
        events = [json_files.loads(line) for line in lines if line]
        found = [it for it in events if it.get("event") == "confusion"]
        tables = [
            Confusions(title(it), it["is"], it["given"], np.array(it["counts"], np.int64))
            for it in found
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as e:
        raise ToolkitError(
            f"{path} must be a file that toolkit-validate --json wrote, but is not: {e}."
        ) from e
    if not tables:
        raise ToolkitError(
            f"{path} must tell which tag was taken for which, but does not. Write it with "
            f"toolkit-validate DATA --path CHECKPOINT --json FILE, of the task pos_tagging."
        )
    return tables


def title(event: Any) -> str:
    return f"{event['checkpoint']} {event['subset']}"


def counted(table: Confusions) -> list[tuple[str, str, int]]:
    """Mistakes, the most frequent first."""
    found = [
        (table.true[g], table.given[p], int(table.counts[g, p]))
        for g, p in np.argwhere(table.counts).tolist()
        if table.true[g] != table.given[p]
    ]
    return sorted(found, key=lambda it: (-it[2], it))


def draw(tables: Sequence[Confusions], heading: str) -> Any:
    """Colours are shares of a row; numbers are words."""
    side = max(SMALLEST, INCHES_PER_CLASS * max(len(t.true) for t in tables))
    figure = new_figure((side + MARGIN) * len(tables), side + MARGIN)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    for panel, table in zip(panels, tables, strict=True):
        shares = table.counts / np.maximum(1, table.counts.sum(1, keepdims=True))
        panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        panel.set_xticks(range(len(table.given)), table.given, rotation=90, fontsize=7)
        panel.set_yticks(range(len(table.true)), table.true, fontsize=7)
        panel.set_xlabel("given", fontsize=8)
        panel.set_ylabel("is", fontsize=8)
        panel.set_title(table.title, fontsize=8)
        if len(table.given) <= NUMBERED:
            number(panel, table.counts, shares)
    if heading:
        figure.suptitle(heading, fontsize=10)
    return figure


def number(panel: Any, counts: Any, shares: Any) -> None:
    for row, column in np.argwhere(counts).tolist():
        colour = "white" if shares[row, column] > DARK else "black"
        text = str(counts[row, column])
        panel.text(column, row, text, ha="center", va="center", fontsize=5, color=colour)
