"""Results on minimal pairs: overall, and by field, phenomenon and paradigm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from toolkit.common.arrays import FloatArray
from toolkit.common.json_files import JsonObject
from toolkit.metrics.minimal_pairs import pair_accuracy
from toolkit.reporting.tables import Table
from toolkit.tasks.minimal_pairs.pairs import MinimalPair, Paradigm

METRICS = ("pairs", "accuracy", "standard_error", "ties")
MAX_LISTED_PARADIGMS = 12
"""With more, a table has rows for phenomena only, unless --paradigms asks for all."""


class PairResults:
    """The results of one model: 1, 1/2 (a tie) or 0 for each pair."""

    def __init__(self, pairs: Sequence[MinimalPair], results: FloatArray) -> None:
        self._results = results
        self._paradigms = list(dict.fromkeys(pair.paradigm for pair in pairs))
        number = {paradigm: index for index, paradigm in enumerate(self._paradigms)}
        self._strata = np.array([number[pair.paradigm] for pair in pairs])

    def summary(self) -> JsonObject:
        """Accuracies with their standard errors, for JSON."""
        every = self._paradigms
        return {
            "overall": self._measure(every),
            "fields": self._group(lambda paradigm: paradigm.field),
            "phenomena": [
                {**row, "field": self._main_field(row["name"])}
                for row in self._group(lambda paradigm: paradigm.phenomenon)
            ],
            "paradigms": [{**it._asdict(), **self._measure([it])} for it in every],
        }

    def _group(self, key: Callable[[Paradigm], str]) -> list[JsonObject]:
        """The metrics of the paradigms with each value of the key, except those without one."""
        members: dict[str, list[Paradigm]] = {}
        for paradigm in self._paradigms:
            members.setdefault(key(paradigm), []).append(paradigm)
        return [{"name": it, **self._measure(members[it])} for it in sorted(members) if it]

    def _main_field(self, phenomenon: str) -> str:
        """The field of most paradigms of a phenomenon; BLiMP assigns two to some."""
        fields = Counter(it.field for it in self._paradigms if it.phenomenon == phenomenon)
        return fields.most_common(1)[0][0]

    def _measure(self, paradigms: Sequence[Paradigm]) -> JsonObject:
        """The number of paradigms, and the metrics of their pairs."""
        kept = np.isin(self._strata, [self._paradigms.index(it) for it in paradigms])
        measured = pair_accuracy(self._results[kept], self._strata[kept])
        return {"paradigms": len(paradigms), **measured._asdict()}


def describe_scoring(scoring: str, normalization: str) -> str:
    """`log_likelihood`; `log_likelihood, per token` if normalized by the number of tokens."""
    return scoring + ", per token" * (normalization == "tokens")


def make_tables(record: JsonObject, *, paradigms: bool) -> list[Table]:
    """Phenomena and overall accuracy; paradigms too on request, or if they are few."""
    scoring = describe_scoring(record["scoring"], record["normalization"])
    caption, overall = f"{record['path']}: {scoring}", {"name": "overall", "field": ""}
    rows = sorted(record["phenomena"], key=lambda row: (row["field"], row["name"]))
    rows.append({**overall, **record["overall"]})
    columns = ("phenomenon", "field", "paradigms", *METRICS)
    tables = [make_table(columns, ("name", *columns[1:]), rows, caption)]
    if paradigms or 1 < len(record["paradigms"]) <= MAX_LISTED_PARADIGMS:
        columns = ("paradigm", "phenomenon", "field", *METRICS)
        tables.insert(0, make_table(columns, ("name", *columns[1:]), record["paradigms"], caption))
    return tables


def make_table(
    columns: Sequence[str], keys: Sequence[str], rows: Sequence[JsonObject], caption: str
) -> Table:
    """A table of some keys of JSON objects."""
    cells = [[format_cell(key, row[key]) for key in keys] for row in rows]
    names = [name.replace("_", " ") for name in columns]
    return Table(columns=names, rows=cells, caption=caption, right_align=names[-len(METRICS) :])


def format_cell(key: str, value: str | int | float) -> str | int | float:
    """Accuracies and their errors with four decimals, which distinguish 10,000 pairs."""
    if key in ("accuracy", "standard_error"):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else value
