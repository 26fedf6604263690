"""What a sweep ends with: tables on the console and in files, and learning curves."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from toolkit.analysis.curve import draw_curves
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.commands.plot import CurveConfig
from toolkit.config.commands.train import SweepConfig
from toolkit.reporting.plain_text import Console
from toolkit.reporting.runs import METRICS_FILE, read_runs
from toolkit.reporting.tables import Table
from toolkit.sweep.comparison import comparison_table
from toolkit.sweep.cost import cost_table
from toolkit.sweep.outcomes import MetricSource, Outcome
from toolkit.sweep.pairing import group_by_configuration
from toolkit.sweep.ranking import Ranking, rank_configurations
from toolkit.sweep.tuning import best_of_each_variant, describe_edges
from toolkit.training.result import write_results

MAX_DRAWN = 500
"""Maximum number of runs whose learning curves are drawn."""


def report_sweep(
    outcomes: Sequence[Outcome],
    source: MetricSource,
    c: SweepConfig,
    failed: Mapping[str, int],
    folder: Path,
) -> None:
    """Print the tables, write them as sweep.md, sweep.tex and sweep.json, and draw the curves."""
    configurations = group_by_configuration(outcomes, source)
    ranking = rank_configurations(configurations, source.metric, c.rank_by)
    table = comparison_table(ranking, source, c.rank_by, failed)
    others = {"tuned": tuned_table(ranking, source, c)} if c.tuned() else {}
    others["cost"] = cost_table(ranking, source)
    tables = [table, *others.values()]
    console = Console()
    for one in tables:
        one.print(console)
    more = {name: one.values() for name, one in others.items()}
    for suffix, text in (
        ("md", "\n".join(one.markdown() for one in tables)),
        ("tex", "\n".join(one.latex() for one in tables)),
        ("json", table.json(**more, **statistics(ranking), runs=list(map(run_values, outcomes)))),
    ):
        write_results(folder / f"sweep.{suffix}", text)
    draw_learning_curves(outcomes, source, folder)


def tuned_table(ranking: Ranking, source: MetricSource, c: SweepConfig) -> Table:
    """The comparison of the variants, each with the best values of its tuned options."""
    tuned = c.tuned()
    chosen = best_of_each_variant(ranking, tuned, source.metric)
    table = comparison_table(chosen, source, c.rank_by, failed={})
    return replace(
        table,
        caption=f"{source}, best {' and '.join(tuned)} of each variant",
        note="; ".join(filter(None, [table.note, describe_edges(ranking, chosen, tuned)])),
    )


def statistics(ranking: Ranking) -> JsonObject:
    """Index of the best row; all that was computed about each row and its difference from it."""
    return {
        "best": ranking.best,
        "summaries": [asdict(row.configuration.summary) for row in ranking.rows],
        "differences": [row.difference and asdict(row.difference) for row in ranking.rows],
    }


def run_values(o: Outcome) -> JsonObject:
    """A run in sweep.json, with all its metrics."""
    return {
        "name": o.point.name,
        "values": dict(o.point.values),
        "seed": o.point.seed,
        **{key: o.result[key] for key in ("updates", "seconds", "valid", "best")},
    }


def draw_learning_curves(outcomes: Sequence[Outcome], source: MetricSource, folder: Path) -> None:
    """Draw the compared metric of the compared runs over the updates as sweep.png, if possible."""
    runs = [str(folder / o.point.name) for o in outcomes]
    runs = [run for run in runs if Path(run, METRICS_FILE).exists()]
    image = folder / "sweep.png"
    if len(runs) > MAX_DRAWN:
        print(f"no learning curves of {len(runs)} runs: toolkit-plot curve draws some of them")
        return
    try:
        subset = source.subset if source.subset != "valid" else ""  # training, if validated once
        c = CurveConfig(runs=runs, output=str(image), metric=[source.metric], subset=subset)
        draw_curves(read_runs(runs), c)
    except ToolkitError as error:
        print(f"no learning curves: {error}", file=sys.stderr)
        return
    print(f"learning curves in {image}, the tables in {folder / 'sweep'}.md, .tex and .json")
