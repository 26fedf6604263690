"""toolkit-plot minimal-pairs: accuracies of several models by phenomenon."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from toolkit.analysis.pair_results import (
    PairResult,
    group_paradigms,
    pool,
    read_pair_results,
    shared_paradigms,
)
from toolkit.analysis.plots.labels import label_variants, parse_labels, to_words
from toolkit.analysis.plots.minimal_pairs import GroupAccuracy, Panels, draw_panels
from toolkit.analysis.plots.style import plot_style, save_plot
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PairPlotConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import name_without_seed, short_names
from toolkit.reporting.tables import Table

Models = Mapping[str, Sequence[PairResult]]
"""Name of a model -> its results, one for each seed."""


def plot_minimal_pairs(c: PairPlotConfig) -> None:
    """Draw, print and write the accuracies in result files."""
    results = [result for file in c.files for result in read_pair_results(Path(file))]
    models, shared = group_seeds(results), shared_paradigms(results)
    groups = group_paradigms(shared, c.phenomenon)
    labels = make_labels(models, groups, c.labels)
    panels = measure_groups(models, groups)
    with Output(c.json) as output:
        with plot_style(c):
            save_plot(draw_panels(panels, labels, c), c)
        for group, panel in panels.items():
            for model, accuracy in panel.items():
                record = {"group": group, "paradigms": len(groups[group]), "model": model}
                output.write("accuracy", {**record, **accuracy._asdict()})
        make_table(panels, labels).print(output.console)
        if others := len(set().union(*(it.paradigms for it in results))) - len(shared):
            plural = "s" * (others != 1)
            output.print_line(f"left out {others} paradigm{plural} that not all models have")
        output.write("end", {"output": c.output_file})
        output.print_line(f"wrote {c.output_file}")


def group_seeds(results: Sequence[PairResult]) -> dict[str, list[PairResult]]:
    """Results that differ only in the seed, by the name of their model."""
    groups: dict[tuple[str, str], list[PairResult]] = {}
    for it in results:
        group = groups.setdefault((without_seed(it.source), it.scoring), [])
        if it.source in [other.source for other in group]:
            raise ToolkitError(
                f"{it.source} must have one result, but has two. Name each file once, and draw "
                f"results on other pairs separately."
            )
        group.append(it)
    names = shorten_paths([source for source, _ in groups])
    for index, (source, scoring) in enumerate(groups):
        if [path for path, _ in groups].count(source) > 1:
            names[index] += f", {scoring}"
    return dict(zip(names, groups.values(), strict=True))


def without_seed(path: str) -> str:
    """`runs/arch=a,seed=1/checkpoint_best` -> runs/arch=a/checkpoint_best."""
    return Path(*(name_without_seed(Path(it)) or it for it in Path(path).parts)).as_posix()


def shorten_paths(paths: Sequence[str]) -> list[str]:
    """The shortest distinct names; that of a checkpoint only if one run has several."""
    folders = [path.rpartition("/checkpoint_")[0] or path for path in paths]
    distinct = len(set(folders)) == len(set(paths))
    return short_names(folders if distinct else paths)


def make_labels(models: Models, groups: Iterable[str], options: Sequence[str]) -> dict[str, str]:
    """Name of each model and group -> its label."""
    runs, _ = label_variants([name for name, seeds in models.items() if seeds[0].scoring])
    words = {name: runs.get(name, to_words(name)) for name in (*models, *groups)}
    return {**words, **parse_labels(options, words)}


def measure_groups(models: Models, groups: Mapping[str, Sequence[str]]) -> Panels:
    """Accuracies by group, models sorted by the first group."""
    panels = {
        group: {model: measure(seeds, names) for model, seeds in models.items()}
        for group, names in groups.items()
    }
    first = next(iter(panels.values()))
    order = sorted(models, key=lambda model: -first[model].mean)
    return {group: {model: panel[model] for model in order} for group, panel in panels.items()}


def measure(seeds: Sequence[PairResult], paradigms: Sequence[str]) -> GroupAccuracy:
    """The accuracy of one model on some paradigms."""
    pooled = [pool([it.paradigms[name] for name in paradigms]) for it in seeds]
    accuracies = [100 * it.accuracy for it in pooled]
    errors = [100 * it.standard_error for it in pooled if it.standard_error is not None]
    error = statistics.mean(errors) if errors else None
    return GroupAccuracy(statistics.mean(accuracies), error, accuracies)


def make_table(panels: Panels, labels: Mapping[str, str]) -> Table:
    """Accuracies in percent: a row for each group, a column for each model."""
    models = list(next(iter(panels.values())))
    rows = [
        [labels[group], *(f"{panel[model].mean:.1f}" for model in models)]
        for group, panel in panels.items()
    ]
    columns = ["accuracy (%)", *(labels[model] for model in models)]
    return Table(columns=columns, rows=rows, right_align=columns[1:])
