"""The best learning rate, or other tuned option, of each variant in a sweep."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from toolkit.sweep.ranking import RankedRow, Ranking, index_of_best


def best_of_each_variant(ranking: Ranking, tuned: Collection[str], metric: str) -> Ranking:
    """One row per variant, which is what the options that are not tuned have in common.

    The corrected p-values stay those of all configurations, among which these were chosen.
    """
    chosen = []
    for rows in group_by_variant(ranking, tuned):
        best = index_of_best([row.value for row in rows], metric)
        chosen.append(rows[0 if best is None else best])
    best = index_of_best([row.value for row in chosen], metric)
    return replace(ranking, rows=chosen, best=best)


def group_by_variant(ranking: Ranking, tuned: Collection[str]) -> list[list[RankedRow]]:
    """Rows that differ in the tuned options only, in one group."""
    groups: dict[tuple[str, ...], list[RankedRow]] = {}
    for row in ranking.rows:
        values = row.configuration.point.values
        variant = tuple(value for option, value in values.items() if option not in tuned)
        groups.setdefault(variant, []).append(row)
    return list(groups.values())


def describe_edges(ranking: Ranking, chosen: Ranking, tuned: Collection[str]) -> str:
    """Which chosen numbers are the smallest or largest that were tried; empty if none."""
    found = []
    for option in tuned:
        tried = numbers(ranking.rows, option)
        edges = {min(tried): "smallest", max(tried): "largest"} if len(set(tried)) > 1 else {}
        at = dict.fromkeys(edges[x] for x in numbers(chosen.rows, option) if x in edges)
        found += [f"the {edge} {option} tried" for edge in at]
    return f"best at {' and '.join(found)}: try values beyond" if found else ""


def numbers(rows: Sequence[RankedRow], option: str) -> list[float]:
    """Values of an option; none if some is not a number."""
    try:
        return [float(row.configuration.point.values[option]) for row in rows]
    except ValueError:
        return []
