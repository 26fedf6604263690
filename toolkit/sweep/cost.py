"""What the configurations of a sweep cost: size, FLOPs, speed and memory."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from toolkit.reporting.tables import Cell, Table
from toolkit.sweep.comparison import option_columns
from toolkit.sweep.outcomes import MetricSource, Outcome
from toolkit.sweep.ranking import Ranking

COSTS = ("parameters", "flops_per_token", "tokens_per_second", "peak_memory_gib")


def cost_table(ranking: Ranking, source: MetricSource) -> Table:
    """Parameters, FLOPs of an update per token, and the last report of speed and memory.

    Each is the median over the seeds: a run that shared its processor may have been slow.
    """
    configurations = [row.configuration for row in ranking.rows]
    columns = option_columns(configurations)
    columns[source.metric] = [row.value for row in ranking.rows]
    for name in COSTS:
        columns[name] = [median_cost(c.outcomes, name) for c in configurations]
    return Table(
        columns=list(columns),
        rows=list(zip(*columns.values(), strict=True)),
        caption="cost: median of the seeds",
    )


def median_cost(outcomes: Sequence[Outcome], name: str) -> Cell:
    """The median of what the results, or their latest training reports, say; None if unknown."""
    found = [o.result.get(name, o.result.get("train", {}).get(name)) for o in outcomes]
    known = [value for value in found if value is not None]
    return statistics.median_low(known) if known else None
