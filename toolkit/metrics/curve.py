"""Learning curves of runs: the mean over seeds, with a band of one standard deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config.plot import PlotConfig
from toolkit.metrics.runs import Run, grouped, read_runs
from toolkit.metrics.summary import Summary, summary

# Distinct for the colour-blind too (Okabe & Ito 2008), with lines that differ when they run out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", ":", "-.")
MARKED_POINTS = 25  # more would hide the line


class Curve(NamedTuple):
    updates: Sequence[int]
    figures: Sequence[Summary]
    runs: int


def curve(c: PlotConfig) -> None:
    """Draw the runs that the options name, and say where."""
    draw(read_runs(c.runs), c)
    print(c.output)


def draw(runs: Sequence[Run], c: PlotConfig) -> None:
    """A picture of the runs, grouped by configuration."""
    figure = new_figure()
    groups = grouped(runs)
    axes = figure.add_subplot()
    drawn, shown = 0, subsets(groups, c)
    for subset in shown:
        for name, group in groups.items():
            found = curve_of(group, subset, c.metric)
            if found.updates:
                add(axes, found, drawn, legend(name, subset, found, alone=len(groups) == 1))
                drawn += 1
    if not drawn:
        raise ToolkitError(
            f"the runs must have logged {c.metric!r} of {c.subset or 'valid'}, but none did. "
            f"Logged: {', '.join(logged(runs)) or 'nothing'}."
        )
    finish(axes, c, f"{c.metric} on {shown[0]}" if len(shown) == 1 else c.metric)
    save(figure, c.output)


def subsets(groups: Mapping[str, Sequence[Run]], c: PlotConfig) -> list[str]:
    """What to draw: as asked, else valid, and train too where it would not be confusing."""
    if c.subset:
        return [c.subset]
    validated = [curve_of(group, "valid", c.metric).updates for group in groups.values()]
    if max(map(len, validated)) < 2:  # a point is no curve
        return ["train"]
    return ["train", "valid"] if len(groups) == 1 else ["valid"]


def curve_of(runs: Sequence[Run], subset: str, metric: str) -> Curve:
    """The figure at each update that every one of the runs reported."""
    by_run = [points(run, subset, metric) for run in runs]
    by_run = [figures for figures in by_run if figures]
    common = sorted(set.intersection(*map(set, by_run))) if by_run else []
    return Curve(common, [summary([f[u] for f in by_run]) for u in common], len(by_run))


def points(run: Run, subset: str, metric: str) -> dict[int, float]:
    """Update -> figure, of the training log or of the validations on a split."""
    return {
        record["update"]: float(record[metric])
        for record in run.records
        if place(record) == subset and is_finite(record.get(metric))
    }


def is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def place(record: Mapping[str, Any]) -> str | None:
    """train, or the split of a validation; None for other events."""
    event = record.get("event")
    return "train" if event == "train" else record.get("subset") if event == "valid" else None


def logged(runs: Sequence[Run]) -> list[str]:
    """subset/figure of all that there is to draw."""
    return sorted(
        {
            f"{place(record)}/{name}"
            for run in runs
            for record in run.records
            if place(record)
            for name, value in record.items()
            if isinstance(value, int | float) and name not in ("update", "epoch")
        }
    )


def legend(name: str, subset: str, found: Curve, *, alone: bool) -> str:
    seeds = f" ({found.runs} seeds)" if found.runs > 1 else ""
    return (subset if alone else name) + seeds


def new_figure() -> Any:
    """An empty picture, without any window or global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ToolkitError(
            "drawing needs matplotlib, but that is not installed. "
            "Run pip install 'toolkit-seq[plot]'."
        ) from error
    return Figure(figsize=(7.5, 4.5), layout="constrained")


def add(axes: Any, found: Curve, index: int, name: str) -> None:
    """One line and its band."""
    means = [figure.mean for figure in found.figures]
    spread = [figure.deviation or 0.0 for figure in found.figures]
    style = {
        "color": COLOURS[index % len(COLOURS)],
        "linestyle": LINES[index // len(COLOURS) % len(LINES)],
    }
    few = len(means) <= MARKED_POINTS
    axes.plot(found.updates, means, label=name, marker="o" if few else "", markersize=3, **style)
    if any(spread):
        below = [m - s for m, s in zip(means, spread, strict=True)]
        above = [m + s for m, s in zip(means, spread, strict=True)]
        axes.fill_between(found.updates, below, above, color=style["color"], alpha=0.2, linewidth=0)


def finish(axes: Any, c: PlotConfig, what: str) -> None:
    """Labels, and nothing that is not needed."""
    axes.set_xlabel("update")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(what)
    axes.set_title(c.title)
    if c.log_scale:
        axes.set_yscale("log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)
    lines = sorted(axes.get_lines(), key=lambda line: line.get_ydata()[-1], reverse=True)
    axes.legend(lines, [line.get_label() for line in lines], frameon=False)


def save(figure: Any, output: str) -> None:
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, dpi=160)
    except OSError as error:
        raise ToolkitError(
            f"--output must be writable, but {output}: {error.strerror}. Choose another file."
        ) from error
