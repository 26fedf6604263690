"""toolkit-plot minimal-pairs: accuracies of several models by phenomenon."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from toolkit.analysis.plot_style import (
    Axes,
    Figure,
    hide_box,
    label_variants,
    line_style,
    new_plot,
    open_plot,
    parse_labels,
    to_words,
    write_plot,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import (
    JsonError,
    JsonObject,
    PositiveCount,
    convert,
    convert_fields,
    name_file,
)
from toolkit.config.commands.checkpoints import COMPLETIONS_TASK, MINIMAL_PAIRS_TASK
from toolkit.config.commands.plot import PairPlotConfig
from toolkit.reporting.runs import OVERALL, name_model, read_log, short_names
from toolkit.reporting.tables import Table
from toolkit.tasks.completions.results import describe_scoring


def plot_minimal_pairs(c: PairPlotConfig) -> None:
    """Draw, print and write the accuracies in result files."""
    results = [result for file in c.files for result in read_pair_results(Path(file))]
    models, shared = group_seeds(results), shared_paradigms(results)
    groups = group_paradigms(shared, c.phenomenon)
    words, _ = label_variants([name for name, seeds in models.items() if seeds[0].scoring])
    labels = {name: words.get(name, to_words(name)) for name in (*models, *groups)}
    labels |= parse_labels(c.labels, labels)
    whole = next(iter(groups.values()))
    order = sorted(models, key=lambda model: -measure(models[model], whole).mean)
    panels = {
        group: {model: measure(models[model], names) for model in order}
        for group, names in groups.items()
    }
    with open_plot(c) as output:
        write_plot(c, draw_panels, panels, labels, c)
        for group, panel in panels.items():
            for model, accuracy in panel.items():
                record = {"group": group, "paradigms": len(groups[group]), "model": model}
                output.write("accuracy", {**record, **accuracy._asdict()})
        rows = [
            [labels[group], *(f"{it.mean:.1f}" for it in panel.values())]
            for group, panel in panels.items()
        ]
        columns = ["accuracy (%)", *(labels[model] for model in order)]
        Table(columns=columns, rows=rows, right_align=columns[1:]).print(output.console)
        if others := len(set().union(*(it.paradigms for it in results))) - len(shared):
            plural = "s" * (others != 1)
            output.print_line(f"left out {others} paradigm{plural} that not all models have")
        output.write("end", {"output": c.output_file})
        output.print_line(f"wrote {c.output_file}")


def group_seeds(results: Sequence[PairResult]) -> dict[str, list[PairResult]]:
    """Results that differ only in the seed, by the name of their model."""
    groups: dict[tuple[str, str], list[PairResult]] = {}
    for it in results:
        group = groups.setdefault((name_model(it.source), it.scoring), [])
        if it.source in [other.source for other in group]:
            raise ToolkitError(
                f"{it.source} must have one result, but has two. Name each file once, and draw "
                f"results on other pairs separately."
            )
        group.append(it)
    # the name of a checkpoint only if one run has several
    paths = [source for source, _ in groups]
    folders = [path.rpartition("/checkpoint_")[0] or path for path in paths]
    names = short_names(folders if len(set(folders)) == len(set(paths)) else paths)
    for index, (source, scoring) in enumerate(groups):
        if paths.count(source) > 1:
            names[index] += f", {scoring}"
    return dict(zip(names, groups.values(), strict=True))


def measure(seeds: Sequence[PairResult], paradigms: Sequence[str]) -> GroupAccuracy:
    """The accuracy of one model on some paradigms."""
    pooled = [pool(it.only(paradigms)) for it in seeds]
    accuracies = [100 * accuracy for accuracy, _ in pooled]
    errors = [100 * error for _, error in pooled if error is not None]
    error = statistics.mean(errors) if errors else None
    chance = pool([replace(it, accuracy=it.chance) for it in seeds[0].only(paradigms)])[0]
    return GroupAccuracy(statistics.mean(accuracies), error, accuracies, 100 * chance)


HOW_TO_WRITE = (
    "Write them with toolkit-validate PAIRS --task minimal_pairs --path CHECKPOINT "
    "--results-path FILE."
)


@dataclass(frozen=True)
class Paradigm:
    """Accuracy on the pairs of a paradigm, as in a record of toolkit-validate."""

    name: str
    phenomenon: str
    """Empty if unknown."""
    accuracy: Annotated[float, Meta(ge=0, le=1)]
    standard_error: float | None
    """Over pairs; None if unknown."""
    pairs: PositiveCount = 1
    """Pairs or items; 1 for a published accuracy whose number of pairs is unknown."""
    items: PositiveCount = 1
    """What completions counts instead of pairs."""
    chance: float = 0.5

    @property
    def count(self) -> int:
        """Number of pairs or items."""
        return max(self.pairs, self.items)


class PairResult(NamedTuple):
    """Accuracies of one checkpoint, or of one model of a table, by paradigm."""

    source: str
    """Path of the checkpoint, or name of the model."""
    scoring: str
    """With the normalization; empty if unknown."""
    paradigms: Mapping[str, Paradigm]

    def only(self, names: Sequence[str]) -> list[Paradigm]:
        """The paradigms with these names."""
        return [self.paradigms[name] for name in names]


def pool(paradigms: Sequence[Paradigm]) -> tuple[float, float | None]:
    """sum_k n_k a_k / N, and the standard error sqrt(sum_k (n_k e_k)^2) / N, None if unknown.

    n_k pairs of paradigm k, N of all. Paradigms are strata: their choice is no sampling error.
    """
    pairs = sum(it.count for it in paradigms)
    accuracy = sum(it.count * it.accuracy for it in paradigms) / pairs
    errors = [it.count * it.standard_error for it in paradigms if it.standard_error is not None]
    return accuracy, math.hypot(*errors) / pairs if len(errors) == len(paradigms) else None


RESULT: Mapping[str, Any] = {
    **{"path": str, "scoring": str, "normalization": str},
    "paradigms": Annotated[list[Paradigm], Meta(min_length=1)],
}
"""What is read of a result of toolkit-validate -> its type."""


def read_pair_results(path: Path) -> list[PairResult]:
    """The results in a file of toolkit-validate, or the models of a table like BLiMP's summary."""
    rows, results = read_log(path), list[PairResult]()
    with name_file(path, HOW_TO_WRITE):
        for row in rows:
            only_ratings = row.get("correlations") and not row.get("paradigms")
            if row.get("task") not in (MINIMAL_PAIRS_TASK, COMPLETIONS_TASK) or only_ratings:
                continue
            record = convert_fields(row, RESULT)
            scoring = describe_scoring(record["scoring"], record["normalization"])
            paradigms = {it.name: it for it in record["paradigms"]}
            found = PairResult(record["path"], scoring, paradigms)
            if row.get("set") and results and results[-1][:2] == found[:2]:  # of one suite
                before = results.pop().paradigms
                found = found._replace(paradigms={**before, **found.paradigms})
            results.append(found)
    remedy = (
        "Correct or remove the row: a table has one row per UID, with an accuracy for each model "
        "and no other numbers."
    )
    with name_file(path, remedy):
        results += parse_table([row for row in rows if row.get("UID", OVERALL) != OVERALL])
    if not results:
        raise ToolkitError(
            f"{path} must hold results on minimal pairs, but holds none. {HOW_TO_WRITE}"
        )
    return results


def parse_table(rows: Sequence[JsonObject]) -> Iterator[PairResult]:
    """One result for each model, which is a field with a number in any row; rows are paradigms."""
    numbers = ((key, value) for row in rows for key, value in row.items())
    for model in dict.fromkeys(key for key, value in numbers if type(value) in (int, float)):
        found: dict[str, Paradigm] = {}
        for row in rows:
            name, phenomenon, accuracy = map(row.get, ("UID", "linguistics_term", model))
            parts = {"name": name, "phenomenon": phenomenon, "accuracy": accuracy}
            try:
                paradigm = convert({**parts, "standard_error": None}, Paradigm)
            except JsonError as error:
                raise JsonError(f"{model} in the row of UID {name}: {error}") from None
            if name in found:
                raise JsonError(f"UID {name} must have one row, but has several")
            found[paradigm.name] = paradigm
        yield PairResult(model, "", found)


def shared_paradigms(results: Sequence[PairResult]) -> dict[str, str]:
    """The paradigms of all results, with their phenomena in the first one."""
    names = set.intersection(*(set(it.paradigms) for it in results))
    if not names:
        raise ToolkitError("Results must have paradigms in common, but these have none.")
    return {name: it.phenomenon for name, it in results[0].paradigms.items() if name in names}


def group_paradigms(phenomena: Mapping[str, str], only: str = "") -> dict[str, list[str]]:
    """All paradigms, then those of each phenomenon by name; with `only`, its paradigms one by one.

    A paradigm without a phenomenon is a group by itself.
    """
    known = sorted(set(phenomena.values()) - {""})
    if only and only not in known:
        raise ToolkitError(f"--phenomenon must be one of {', '.join(known)}, but is {only!r}.")
    selected = [name for name, it in phenomena.items() if only in ("", it)]
    keys = {name: name if only else phenomena[name] or name for name in selected}
    groups: dict[str, list[str]] = {only or OVERALL: selected}
    parts = sorted(set(keys.values()) - groups.keys())
    if len(parts) > 1:  # one part repeats the whole
        groups |= {part: [name for name in selected if keys[name] == part] for part in parts}
    return groups


PANEL_WIDTH, MIN_PANEL_WIDTH, MAX_COLUMNS = 1.4, 1.0, 5  # inches; panels per row
ROW_HEIGHT, GAP, AXIS_HEIGHT = 0.145, 0.2, 0.6  # inches: of a model, of a panel, of the axis
LETTER, LINE = 0.52 / 72, 1.3 / 72  # inches of an average letter, for each point of the font size


class GroupAccuracy(NamedTuple):
    """Accuracy of one model on one group of paradigms, in percent."""

    mean: float
    """Over seeds."""
    standard_error: float | None
    """Over pairs, the mean of the seeds'; None if unknown."""
    seeds: Sequence[float]
    """The accuracy of each seed."""
    chance: float = 50.0


def draw_panels(
    panels: Mapping[str, Mapping[str, GroupAccuracy]], labels: Mapping[str, str], c: PairPlotConfig
) -> Figure:
    """One panel per group with a common scale, its models from top to bottom, in all the same."""
    first = next(iter(panels.values()))
    models = [labels[name] for name in first]
    fig, axes = new_panels([labels[name] for name in panels], models, c)
    for ax, panel in zip(axes, panels.values(), strict=True):
        for row, accuracy in enumerate(panel.values()):
            draw_accuracy(ax, row, accuracy)
        chance = next(iter(panel.values())).chance
        ax.axvline(chance, color="#999999", linewidth=0.8, linestyle=(0, (3, 2)), zorder=0)
        ax.grid(axis="y", color="#e5e5e5", linewidth=0.5)
        ax.set_axisbelow(True)
        hide_box(ax)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(models)), models)
    axes[0].set_ylim(len(models) - 0.4, -0.6)  # the first model on top
    axes[0].title.set_fontweight("bold")
    letters = int(fig.get_figwidth() / (LETTER * c.font_size))
    accuracies = [accuracy for panel in panels.values() for accuracy in panel.values()]
    label = "accuracy (%)"
    if any(it.standard_error is not None for it in accuracies):
        label += " ± standard error over pairs"
    if any(len(it.seeds) > 1 for it in accuracies):
        label += "; mean over seeds; strokes: each seed"
    fig.supxlabel(textwrap.fill(label, letters))
    return fig


def new_panels(
    titles: Sequence[str], models: Sequence[str], c: PairPlotConfig
) -> tuple[Figure, list[Axes]]:
    """A plot with a panel for each title, wrapped into rows that fit the width."""
    letter = LETTER * c.font_size
    left = letter * (max(map(len, models)) + 1)
    fitting = int((c.inches[0] - left) / MIN_PANEL_WIDTH) if c.inches else MAX_COLUMNS
    rows = math.ceil(len(titles) / max(1, min(fitting, len(titles))))
    columns = math.ceil(len(titles) / rows)
    width = c.inches[0] if c.inches else left + PANEL_WIDTH * columns
    letters = max(8, int((width - left) / columns / letter))
    wrapped = [textwrap.fill(title, letters) for title in titles]
    lines = max(title.count("\n") + 1 for title in wrapped)
    panel = ROW_HEIGHT * len(models) + GAP + LINE * c.font_size * lines
    fig = new_plot(width, rows * panel + AXIS_HEIGHT + 0.25 * bool(c.title))
    grid: Any = fig.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax, title in zip(grid.flat, wrapped, strict=False):
        ax.set_title(title, fontsize="small", pad=3)
    for ax in grid.flat[len(titles) :]:
        ax.remove()
    for ax in grid.flat[len(titles) - columns : len(titles)]:
        ax.tick_params(labelbottom=True)  # also where the panel below is missing
    return fig, list(grid.flat[: len(titles)])


def draw_accuracy(ax: Axes, row: int, accuracy: GroupAccuracy) -> None:
    """A marker with the standard error, and a stroke for each of several seeds."""
    style = line_style(row)
    ax.errorbar(
        accuracy.mean,
        row,
        xerr=accuracy.standard_error,
        color=style["color"],
        marker=style["marker"],
        markersize=3.5,
        elinewidth=0.9,
        linestyle="none",
    )
    if len(accuracy.seeds) > 1:
        rows = [row] * len(accuracy.seeds)
        ax.plot(accuracy.seeds, rows, "|", color=style["color"], markersize=5, markeredgewidth=0.6)
