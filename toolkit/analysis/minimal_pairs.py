"""toolkit-plot minimal-pairs: accuracies of several models by phenomenon."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, TypeGuard

from msgspec import Meta

from toolkit.analysis.minimal_pairs_plot import GroupAccuracy, Panels, draw_panels
from toolkit.analysis.plot_style import (
    label_variants,
    open_plot,
    parse_labels,
    plot_style,
    save_plot,
    to_words,
)
from toolkit.common.errors import ToolkitError
from toolkit.common.files import read_bytes
from toolkit.common.json_files import (
    JSON_TYPES,
    MAX_BYTES,
    JsonError,
    JsonObject,
    PositiveCount,
    convert,
    decode,
    name_file,
)
from toolkit.config.commands.checkpoints import MINIMAL_PAIRS_TASK
from toolkit.config.commands.plot import PairPlotConfig
from toolkit.reporting.runs import name_without_seed, short_names
from toolkit.reporting.tables import Table
from toolkit.tasks.minimal_pairs.pairs import describe_scoring


def plot_minimal_pairs(c: PairPlotConfig) -> None:
    """Draw, print and write the accuracies in result files."""
    results = [result for file in c.files for result in read_pair_results(Path(file))]
    models, shared = group_seeds(results), shared_paradigms(results)
    groups = group_paradigms(shared, c.phenomenon)
    labels = make_labels(models, groups, c.labels)
    panels = measure_groups(models, groups)
    with open_plot(c) as output:
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


OVERALL = "overall"
HOW_TO_WRITE = (
    "Write them with toolkit-validate PAIRS --task minimal_pairs --path CHECKPOINT "
    "--results-path FILE."
)
HOW_TO_CORRECT = (
    "Correct or remove the row: a table has one row per UID, with an accuracy for each model and "
    "no other numbers."
)


class PooledAccuracy(NamedTuple):
    """Accuracy on the pairs of one or several paradigms."""

    pairs: int
    """1 for a published accuracy whose number of pairs is unknown."""
    accuracy: float
    standard_error: float | None
    """Over pairs; None if unknown."""


class PairResult(NamedTuple):
    """Accuracies of one checkpoint, or of one model of a table, by paradigm."""

    source: str
    """Path of the checkpoint, or name of the model."""
    scoring: str
    """With the normalization; empty if unknown."""
    paradigms: Mapping[str, PooledAccuracy]
    phenomena: Mapping[str, str]
    """Paradigm -> phenomenon, empty if unknown."""


Models = Mapping[str, Sequence[PairResult]]
"""Name of a model -> its results, one for each seed."""


def pool(accuracies: Sequence[PooledAccuracy]) -> PooledAccuracy:
    """sum_k n_k a_k / N, with the standard error sqrt(sum_k (n_k e_k)^2) / N.

    n_k pairs of paradigm k, N of all. Paradigms are strata: their choice is no sampling error.
    """
    pairs = sum(it.pairs for it in accuracies)
    accuracy = sum(it.pairs * it.accuracy for it in accuracies) / pairs
    errors = [it.pairs * it.standard_error for it in accuracies if it.standard_error is not None]
    known = len(errors) == len(accuracies)
    return PooledAccuracy(pairs, accuracy, math.hypot(*errors) / pairs if known else None)


def read_pair_results(path: Path) -> list[PairResult]:
    """The results in a file of toolkit-validate, or the models of a table like BLiMP's summary."""
    if path.is_dir():
        raise ToolkitError(
            f"{path} must be a file of results on minimal pairs, but is a folder. {HOW_TO_WRITE}"
        )
    if not path.is_file():
        raise ToolkitError(f"No such file: {path}.")
    with name_file(path, HOW_TO_WRITE):
        lines = read_bytes(path, MAX_BYTES).decode().split("\n")
        rows = [decode(line, JsonObject, non_finite=True) for line in lines if line.strip()]
        results = [parse_result(row) for row in rows if row.get("task") == MINIMAL_PAIRS_TASK]
    with name_file(path, HOW_TO_CORRECT):
        results += parse_table([row for row in rows if row.get("UID", OVERALL) != OVERALL])
    if not results:
        raise ToolkitError(
            f"{path} must hold results on minimal pairs, but holds none. {HOW_TO_WRITE}"
        )
    return results


@dataclass(frozen=True)
class ParadigmRecord:
    """A paradigm in a record of toolkit-validate."""

    name: str
    phenomenon: str
    pairs: PositiveCount
    accuracy: float
    standard_error: float


@dataclass(frozen=True)
class ResultRecord:
    """The results of a checkpoint, as toolkit-validate writes them."""

    path: str
    scoring: str
    normalization: str
    paradigms: Annotated[list[ParadigmRecord], Meta(min_length=1)]


@dataclass(frozen=True)
class TableRow:
    """A paradigm in a table like BLiMP's summary, without the accuracies of the models."""

    UID: str
    linguistics_term: str


def parse_result(row: JsonObject) -> PairResult:
    """The result of a checkpoint, as toolkit-validate writes it."""
    record = convert(row, ResultRecord)
    scoring = describe_scoring(record.scoring, record.normalization)
    accuracies = {
        it.name: PooledAccuracy(it.pairs, it.accuracy, it.standard_error) for it in record.paradigms
    }
    phenomena = {it.name: it.phenomenon for it in record.paradigms}
    return PairResult(record.path, scoring, accuracies, phenomena)


def parse_table(rows: Sequence[JsonObject]) -> Iterator[PairResult]:
    """One result for each model, which is a field with a number in any row; rows are paradigms."""
    paradigms = [convert(row, TableRow) for row in rows]
    phenomena = {it.UID: it.linguistics_term for it in paradigms}
    models = dict.fromkeys(key for row in rows for key, value in row.items() if is_number(value))
    if models:
        check_unique([it.UID for it in paradigms])
    for model in models:
        numbers = [parse_accuracy(row, model) for row in rows]
        accuracies = {
            uid: PooledAccuracy(1, number, None)
            for uid, number in zip(phenomena, numbers, strict=True)
        }
        yield PairResult(model, "", accuracies, phenomena)


def parse_accuracy(row: JsonObject, model: str) -> float:
    """The accuracy of a model in a row; raises JsonError if the row has none."""
    value = row.get(model)
    if is_number(value) and 0 <= value <= 1:
        return float(value)
    found = f"{value:.15g}" if is_number(value) else JSON_TYPES[type(value)]
    raise JsonError(
        f"{model} must be an accuracy from 0 to 1 in the row of UID {row['UID']}, but is "
        f"{found if model in row else 'missing'}"
    )


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a JSON value is a number; booleans are not, although Python counts them as int."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_unique(uids: Sequence[str]) -> None:
    """Raise JsonError if a UID has several rows."""
    uid, rows = Counter(uids).most_common(1)[0]
    if rows > 1:
        raise JsonError(f"UID {uid} must have one row, but has {rows}")


def shared_paradigms(results: Sequence[PairResult]) -> dict[str, str]:
    """The paradigms of all results, with their phenomena in the first one."""
    names = set.intersection(*(set(it.paradigms) for it in results))
    if not names:
        raise ToolkitError("Results must have paradigms in common, but these have none.")
    return {name: it for name, it in results[0].phenomena.items() if name in names}


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
