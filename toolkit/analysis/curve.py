"""Plots of learning curves: mean over seeds with a band, one panel per metric."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.analysis.plot_style import (
    SUBSETS,
    Axes,
    Axis,
    Figure,
    draw_line,
    hide_box,
    label_metric,
    label_variants,
    line_style,
    new_plot,
    open_plot,
    parse_labels,
    write_plot,
)
from toolkit.common.errors import METRIC_EVENTS, ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.plot import CurveConfig
from toolkit.metrics.seeds import SeedSummary, summarize
from toolkit.reporting.console import Output
from toolkit.reporting.runs import EventValues, LoggedRun, group_runs, read_runs

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.3  # inches
SINGLE_WIDTH, SINGLE_HEIGHT = 4.8, 3.0  # of a plot with one panel
MIN_PANEL_WIDTH, MAX_COLUMNS = 2.0, 3
LABEL_LETTERS = 25  # per line of a y label


def plot_curves(c: CurveConfig) -> None:
    """Plot the learning curves of runs."""
    with open_plot(c) as output:
        draw_curves(read_runs(c.runs), c, output)


def draw_curves(runs: Sequence[LoggedRun], c: CurveConfig, output: Output | None = None) -> None:
    """Plot runs grouped by configuration."""
    uncounted = [run.folder for run in runs if not any(it.get("words") for it in run.records)]
    if c.x_axis == "words" and uncounted:
        raise ToolkitError(
            f"--x-axis words requires the words that a run has seen, but {uncounted[0]} has not "
            f"counted them. Train on data of toolkit-preprocess --format text, or omit the option."
        )
    groups = group_runs(runs)
    panels = {
        (metric, *subsets): collect_lines(groups, metric, subsets, c, runs)
        for metric in c.metric
        for subsets in choose_subsets(groups, c, metric)
    }
    lines = list({line.number: line for it in panels.values() for line in it}.values())
    split = [key[1] for key in panels] if len(panels) > len(c.metric) else []
    names = [line.subset if len(groups) == 1 and not split else line.name for line in lines]
    given = parse_labels(c.labels, [*names, *c.metric, *split])
    if output:
        for (metric, *_), line in [(key, line) for key, drawn in panels.items() for line in drawn]:
            head = {"metric": metric, "subset": line.subset, "name": line.name, "runs": line.runs}
            columns = ("mean", "deviation", "minimum", "maximum")
            lists = {name: [getattr(it, name) for it in line.summaries] for name in columns}
            output.write("curve", {**head, c.x_axis: line.places, **lists})
    write_plot(c, draw_panels, panels, lines, names, given, c, output=output)


class LiveCurve:
    """A sink that shows the loss of a run in a notebook's cell, from its log, and replaces it."""

    def __init__(self, save_dir: str) -> None:
        output = str(Path(save_dir, "curve.png"))
        self.c = CurveConfig(runs=[save_dir], metric=["loss"], output=output, dpi=100)
        self.handle: Any = None
        self.drawn_at = time.monotonic()

    def write(self, event: str, values: EventValues) -> None:
        due = event in METRIC_EVENTS and time.monotonic() - self.drawn_at > LIVE_SECONDS
        if not (due or event == "end"):
            return
        from IPython.display import Image, display

        with suppress(ToolkitError):  # nothing has been logged yet
            draw_curves(read_runs(self.c.runs), self.c)
            image, self.drawn_at = Image(self.c.output_file), time.monotonic()
            if self.handle:
                self.handle.update(image)
            else:
                self.handle = display(image, display_id=True)

    def close(self) -> None:
        pass


LIVE_SECONDS = 10.0


def draw_panels(
    panels: Mapping[tuple[str, ...], Sequence[Curve]],
    lines: Sequence[Curve],
    names: Sequence[str],
    given: Mapping[str, str],
    c: CurveConfig,
) -> Figure:
    """A panel for each metric and subset that is drawn alone, and a legend of all lines."""
    fig, axes = new_panels(len(panels), c)
    for ax, ((metric, *_), drawn) in zip(axes, panels.items(), strict=True):
        (label, factor), subsets = label_metric(metric), {line.subset for line in drawn}
        for line in drawn:
            draw_curve(ax, line, c, factor)
        split = subsets.pop() if len(subsets) == 1 else ""  # if all lines are of one
        name = given.get(split) or SUBSETS.get(split) or split.replace("_", " ")
        text = textwrap.fill(f"{name} {label}".strip(), LABEL_LETTERS)
        format_axes(ax, c, given.get(metric) or text)
    add_legend(fig, lines, names, given, c)
    return fig


def new_panels(count: int, c: CurveConfig) -> tuple[Figure, list[Axes]]:
    """A plot with this many panels, wrapped into rows that fit the width."""
    fitting = max(1, int(c.inches[0] / MIN_PANEL_WIDTH)) if c.inches else MAX_COLUMNS
    rows = math.ceil(count / min(count, fitting))
    columns = math.ceil(count / rows)
    sizes = (PANEL_WIDTH * columns, PANEL_HEIGHT * rows)
    width, height = sizes if count > 1 else (SINGLE_WIDTH, SINGLE_HEIGHT)
    if c.inches:  # narrow panels are a bit lower
        width = c.inches[0]
        height = c.inches[1] or min(1.0, max(0.75, width / columns / PANEL_WIDTH)) * height
    fig = new_plot(width, height)
    axes: Any = fig.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[count:]:
        ax.remove()
    return fig, list(axes.flat[:count])


def draw_curve(ax: Axes, line: Curve, c: CurveConfig, factor: float = 1.0) -> None:
    """Draw a line and its band; a smoothed line keeps the raw one, faded."""
    means = [factor * summary.mean for summary in line.summaries]
    weight = c.smoothing if line.subset == "train" else 0.0  # validations have little noise
    if weight:
        color = line_style(line.number)["color"]
        ax.plot(line.places, means, color=color, alpha=0.3, linewidth=0.7)
    lower, upper = (smooth(edge, weight) for edge in band_edges(line, c.band, factor))
    band = (lower, upper) if lower != upper else None
    options = {"label": str(line.number), "markersize": 3.5}
    draw_line(ax, line.places, smooth(means, weight), line.number, band, **options)


def format_axes(ax: Axes, c: CurveConfig, ylabel: str) -> None:
    """Format axes, scales and grid."""
    ax.set_xlabel(c.x_axis)
    ax.set_ylabel(ylabel)
    if c.log_updates:
        ax.set_xscale("log")
        use_plain_numbers(ax.xaxis)
    else:
        ax.locator_params("x", integer=True, nbins=6)
        ax.xaxis.set_major_formatter("{x:,.0f}")
    if c.x_axis == "words":
        from matplotlib.ticker import EngFormatter

        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    if c.log_scale:
        ax.set_yscale("log")
        use_plain_numbers(ax.yaxis)
    hide_box(ax)
    ax.grid(color="#dddddd", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.margins(x=0.03)


def use_plain_numbers(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers, between powers of ten too."""
    from matplotlib.ticker import LogFormatter, LogLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(9, 9)))
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(0, 0)))


LETTER = 0.5 / 72  # average width of a letter in inches, for each point of the font size
LINE = 1.5 / 72  # height of a line of the legend in inches, for each point
LEGEND_KEY_LETTERS = 8  # width of a line of the legend, in letters
BANDS = {"deviation": "mean ± standard deviation", "range": "mean, minimum and maximum"}


def add_legend(
    fig: Figure,
    lines: Sequence[Curve],
    names: Sequence[str],
    given: Mapping[str, str],
    c: CurveConfig,
) -> None:
    """One legend below the panels, in the order in which the lines end.

    It has names in words, and the number of seeds once if it is the same for all.
    """
    words, option = label_variants([SUBSETS.get(name, name) for name in names])
    texts = [given.get(name, words[SUBSETS.get(name, name)]) for name in names]
    seeds, title = {line.runs for line in lines}, [option] if option and not given else []
    if len(seeds) > 1:
        counts = [line.runs for line in lines]
        texts = [f"{it} ({n} seed{'s' * (n > 1)})" for it, n in zip(texts, counts, strict=True)]
    if max(seeds) > 1:
        of_seeds = f"{seeds.pop()} seeds" if len(seeds) == 1 else "seeds"
        title.append(f"{BANDS.get(c.band, 'mean')} of {of_seeds}")
    handles = {h.get_label(): h for ax in fig.axes for h in ax.get_lines()}
    drawn = [(handles[str(line.number)], text) for line, text in zip(lines, texts, strict=True)]
    drawn.sort(key=lambda it: float(np.asarray(it[0].get_ydata())[-1]), reverse=True)
    letters = max(map(len, texts)) + LEGEND_KEY_LETTERS
    fitting = max(1, int(fig.get_figwidth() / (LETTER * c.font_size * letters)))
    rows = math.ceil(len(drawn) / fitting) + bool(title)
    if not (c.inches and c.inches[1]):
        fig.set_figheight(fig.get_figheight() + rows * LINE * c.font_size)
    fig.legend(
        *zip(*drawn, strict=True),
        loc="outside lower center",
        ncols=min(len(drawn), fitting),
        frameon=False,
        title="; ".join(title) or None,
        title_fontsize="small",
        handlelength=3.2,
    )


def collect_lines(
    groups: Mapping[str, Sequence[LoggedRun]],
    metric: str,
    subsets: Sequence[str],
    c: CurveConfig,
    runs: Sequence[LoggedRun],
) -> list[Curve]:
    """The lines of a panel, which have the metric; at least one must."""
    keys = [(subset, name) for subset in subsets for name in groups]
    lines = [
        compute_curve(groups[name], subset, metric, c.x_axis)._replace(
            name=name, subset=subset, number=index
        )
        for index, (subset, name) in enumerate(keys)
    ]
    drawable = [line for line in lines if line.places]
    disjoint = [line.name for line in lines if line.runs and not line.places]
    if not drawable and disjoint:
        raise ToolkitError(
            f"the seeds of {disjoint[0]} have logged {metric!r} at no common "
            f"{c.x_axis.removesuffix('s')}. Name one run of each configuration."
        )
    if not drawable:
        logged = {
            f"{record_subset(record)}/{name}"
            for run in runs
            for record in run.records
            if record_subset(record)
            for name, value in record.items()
            if isinstance(value, int | float) and name not in ("update", "epoch")
        }
        raise ToolkitError(
            f"no run has logged {metric!r} of {' or '.join(c.subset) or 'valid'}. "
            f"Logged: {', '.join(sorted(logged)) or 'nothing'}."
        )
    return drawable


def choose_subsets(
    groups: Mapping[str, Sequence[LoggedRun]], c: CurveConfig, metric: str
) -> list[list[str]]:
    """The subsets of each panel of a metric: those selected, or of results on completions; else
    valid, and train too for a single configuration.
    """
    records = [it for group in groups.values() for run in group for it in run.records]
    measured = [it["subset"] for it in records if it.get("part_of") == "" and metric in it]
    if c.subset or measured:
        return [[subset] for subset in c.subset or dict.fromkeys(measured)]
    trained, validated = (
        max(len(compute_curve(it, subset, metric, c.x_axis).places) for it in groups.values())
        for subset in ("train", "valid")
    )
    if trained and validated < 2:  # a point is no curve
        return [["train"]]
    return [["train", "valid"] if len(groups) == 1 else ["valid"]]


class Curve(NamedTuple):
    """Summaries over the runs of one configuration on one split, at numbers of updates or words."""

    places: Sequence[int]
    summaries: Sequence[SeedSummary]
    runs: int
    name: str = ""
    subset: str = ""
    number: int = 0
    """Index of the line, which sets its style in every panel."""


def compute_curve(
    runs: Sequence[LoggedRun], subset: str, metric: str, x_axis: str = "updates"
) -> Curve:
    """Summaries at the updates that all runs reported, or the words of the first run.

    Runs with other seeds have seen slightly other numbers of words at their checkpoints, so values
    are interpolated linearly, within the range of all runs up to 2%.
    """
    key = "words" if x_axis == "words" else "update"
    by_run = [
        {
            record[key]: float(value)
            for record in run.records
            if record_subset(record) == subset
            and record.get(key) is not None
            and isinstance(value := record.get(metric), int | float)
            and math.isfinite(value)
        }
        for run in runs
    ]
    by_run = [dict(sorted(values.items())) for values in by_run if values]
    if x_axis == "words" and by_run:
        low, high = max(map(min, by_run)) / 1.02, min(map(max, by_run)) * 1.02
        places = [words for words in by_run[0] if low <= words <= high]
        rows = np.array([np.interp(places, [*it], [*it.values()]) for it in by_run]).T.tolist()
    else:
        places = sorted(set.intersection(*map(set, by_run))) if by_run else []
        rows = [[values[update] for values in by_run] for update in places]
    return Curve(places, [summarize(row) for row in rows], len(by_run))


def record_subset(record: JsonObject) -> str | None:
    """ "train", or the split of a validation; None for other events."""
    event = record.get("event")
    return "train" if event == "train" else record.get("subset") if event == "valid" else None


def smooth(values: Sequence[float], weight: float) -> list[float]:
    """sum_k w^k x_{n-k} / sum_k w^k, an unbiased exponential moving average."""
    averages, total, norm = [], 0.0, 0.0
    for value in values:
        total, norm = weight * total + value, weight * norm + 1
        averages.append(total / norm)
    return averages


def band_edges(curve: Curve, band: str, factor: float = 1.0) -> tuple[list[float], list[float]]:
    """Lower and upper edge, times a factor; equal without a band."""
    if band == "range":
        pairs = [(s.minimum, s.maximum) for s in curve.summaries]
    else:
        width = 1.0 if band == "deviation" else 0.0
        deviations = [width * (s.deviation or 0.0) for s in curve.summaries]
        means = [s.mean for s in curve.summaries]
        pairs = [(m - d, m + d) for m, d in zip(means, deviations, strict=True)]
    return [factor * lower for lower, _ in pairs], [factor * upper for _, upper in pairs]
