"""Results on items: accuracy with ties, chance and baselines, and correlations, by group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from toolkit.common.arrays import BoolArray, FloatArray, IntArray
from toolkit.common.json_files import JsonObject
from toolkit.data.tokenizers.offsets import to_line
from toolkit.metrics.classification import choose, stratified_error
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.completions.items import Item, Paradigm

PAIRS = "minimal_pairs"


class Scores(NamedTuple):
    """What a model gives the options of all items, N x K; absent options have -inf."""

    scores: FloatArray
    """With the normalization."""
    tokens: IntArray
    """Number of tokens that are scored."""
    misses: IntArray
    """Those of them that are not the most probable token."""
    tolerance: FloatArray
    """Per item, the largest difference of two equal scores."""


class Outcome(NamedTuple):
    """Per item, what its right option gets."""

    correct: FloatArray
    """1 if it is chosen, 1/n for a tie of n options, else 0."""
    tied: BoolArray
    """Whether it shares the highest score."""
    length: FloatArray
    """What it gets if the option with the fewest tokens is chosen."""
    chance: FloatArray
    """1 / number of options; 0 for one option."""
    frequency: FloatArray
    """What it gets if the option with the most frequent words is chosen; NaN if not counted."""


def judge(
    items: Sequence[Item], found: Scores, ties: str, zipf: Callable[[str], float] | None = None
) -> Outcome:
    """A single option is right if all of its tokens are the most probable ones (LAMBADA).

    With frequencies of words, the most frequent option has the largest sum of log p of its words.
    """
    answers = np.array([item.answer for item in items])
    counts = np.isfinite(found.scores).sum(1)
    correct, tied = choose(found.scores, answers, found.tolerance, first=ties == "first")
    shortest = np.where(np.isfinite(found.scores), -found.tokens.astype(float), -np.inf)
    length = choose(shortest, answers, np.zeros(len(items)), first=False)[0]
    frequency, rounding = np.full(len(items), np.nan), np.full(len(items), 1e-9)
    if zipf:
        lines = [to_line(option) for item in items for option in item.options]
        shortest[np.isfinite(shortest)] = [
            sum(zipf(it) - 9 for it in line.split()) for line in lines
        ]
        frequency = choose(shortest, answers, rounding, first=False)[0]
    alone = counts == 1
    correct, tied = np.where(alone, found.misses[:, 0] == 0, correct), tied & ~alone
    return Outcome(correct, tied, length * ~alone, ~alone / counts, frequency * ~alone)


BASELINES = ("chance", "length_only", "frequency_only")
METRICS = ("accuracy", "standard_error", "ties", *BASELINES)
MAX_LISTED_PARADIGMS = 12
"""With more, a table has rows for phenomena only, unless --paradigms asks for all."""


def summarize(items: Sequence[Item], found: Outcome, unit: str) -> JsonObject:
    """Accuracies with their standard errors, for JSON; `unit` names the number of items."""
    every = list(dict.fromkeys(item.paradigm for item in items))
    number = {paradigm: index for index, paradigm in enumerate(every)}
    strata = np.array([number[item.paradigm] for item in items])

    def measure(paradigms: Sequence[Paradigm]) -> JsonObject:
        kept = np.isin(strata, [number[it] for it in paradigms])
        frequency = float(found.frequency[kept].mean())
        return {
            **{"paradigms": len(paradigms), unit: int(kept.sum())},
            "accuracy": float(found.correct[kept].mean()),
            "standard_error": stratified_error(found.correct[kept], strata[kept]),
            "ties": int(found.tied[kept].sum()),
            "chance": float(found.chance[kept].mean()),
            "length_only": float(found.length[kept].mean()),
            **({} if np.isnan(frequency) else {"frequency_only": frequency}),
        }

    groups: dict[str, list[JsonObject]] = {"field": [], "phenomenon": []}
    for key, rows in groups.items():
        for name in sorted({getattr(it, key) for it in every} - {""}):
            members = [it for it in every if getattr(it, key) == name]
            rows.append({"name": name, **measure(members)})
            if key == "phenomenon":  # BLiMP assigns two fields to some
                rows[-1]["field"] = Counter(it.field for it in members).most_common(1)[0][0]
    return {
        "overall": measure(every),
        "fields": groups["field"],
        "phenomena": groups["phenomenon"],
        "paradigms": [{**it._asdict(), **measure([it])} for it in every],
    }


def compare(
    items: Sequence[Item], found: Sequence[Outcome], first: Sequence[Outcome], unit: str
) -> list[JsonObject]:
    """Accuracies of a model's seeds, less those of another's if any, by phenomenon and overall.

        se^2 = e(a - b)^2 + sum_s (d_s^2 + e(a_s - a)^2) / (n (n - 1)) + the same sum for b

    a_s are the results of seed s on the items, a their mean over n seeds, d_s the mean of a_s - a
    over items, and e(x) the standard error of the mean of x over items. This is the deviation of
    bootstrap samples in which items, the same for all seeds, are drawn within each paradigm and,
    independently, n - 1 seeds of each model (Owen 2007, the pigeonhole bootstrap; n - 1 as in Rao
    and Wu 1988, for few seeds). A model with one seed adds nothing: its seed is taken as fixed.
    """

    def measure(correct: FloatArray) -> list[JsonObject]:
        summary = summarize(items, found[0]._replace(correct=correct), unit)
        return [*summary["phenomena"], {"name": "overall", **summary["overall"]}]

    models = [np.stack([it.correct for it in seeds]) for seeds in (found, first) if seeds]
    rows = measure(models[0].mean(0) - sum(seeds.mean(0) for seeds in models[1:]))
    variances = np.array([it["standard_error"] for it in rows], float) ** 2
    for seeds in models:
        n = len(seeds)
        for correct in seeds if n > 1 else ():
            parts = [
                (it["accuracy"], it["standard_error"]) for it in measure(correct - seeds.mean(0))
            ]
            variances += (np.array(parts, float) ** 2).sum(1) / (n * (n - 1))
    return [
        {
            **{"name": it["name"], unit: it[unit]},
            "difference" if first else "accuracy": it["accuracy"],
            "standard_error": None if np.isnan(variance) else variance**0.5,
        }
        for it, variance in zip(rows, variances.tolist(), strict=True)
    ]


def correlate(items: Sequence[Item], scores: FloatArray) -> list[JsonObject]:
    """Spearman's correlation of softmax(scores) of the first option with the ratings."""
    exponents = np.exp(scores - scores.max(1, keepdims=True))
    shares = exponents[:, 0] / exponents.sum(1)
    rows: dict[str, list[tuple[float, float]]] = {}
    for item, share in zip(items, shares.tolist(), strict=True):
        if item.rating is not None:
            rows.setdefault(item.paradigm.name, []).append((share, item.rating))
    return [
        {"name": name, "items": len(row), "spearman": float(stats.spearmanr(row)[0])}
        for name, row in rows.items()
    ]


def describe_scoring(scoring: str, normalization: str) -> str:
    """`log_likelihood`; `log_likelihood, per token` if normalized by the number of tokens."""
    return scoring + (f", per {normalization[:-1]}" if normalization != "none" else "")


def make_tables(record: JsonObject, *, paradigms: bool) -> list[Table]:
    """Phenomena and overall accuracy; paradigms too on request, or if they are few."""
    scoring = describe_scoring(record["scoring"], record["normalization"])
    caption, tables = ": ".join(filter(None, [record["path"], record.get("set"), scoring])), []
    if record["paradigms"]:
        known = [it for it in METRICS if it in record["overall"]]
        metrics = ("pairs" if record["task"] == PAIRS else "items", *known)
        rows = sorted(record["phenomena"], key=lambda row: (row["field"], row["name"]))
        rows.append({"name": "overall", "field": "", **record["overall"]})
        if paradigms or 1 < len(record["paradigms"]) <= MAX_LISTED_PARADIGMS:
            columns = ("paradigm", "phenomenon", "field", *metrics)
            tables.append(make_table(columns, record["paradigms"], caption))
        columns = ("phenomenon", "field", "paradigms", *metrics)
        tables.append(make_table(columns, rows, caption))
    if found := record.get("over_seeds"):
        columns = ("phenomenon", *(it for it in found["groups"][0] if it != "name"))
        name = f"{found['model']}: {scoring}, over {found['seeds']} seeds"
        tables.append(make_table(columns, found["groups"], name))
    if found := record.get("difference"):
        seeds, others = found["seeds"]
        more = f" (over {seeds} and {others} seeds)" if max(seeds, others) > 1 else ""
        columns = ("phenomenon", *(it for it in found["groups"][0] if it != "name"))
        tables.append(
            make_table(columns, found["groups"], f"{caption}, minus {found['from']}{more}")
        )
    if record.get("correlations"):
        columns = ("paradigm", *(it for it in record["correlations"][0] if it != "name"))
        tables.append(make_table(columns, record["correlations"], caption))
    return tables


FRACTIONS = (
    "accuracy",
    "standard_error",
    *BASELINES,
    "spearman",
    "partial_r2",
    "score",
    "difference",
)


def make_table(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]], caption: str) -> Table:
    """A table of some keys of JSON objects, which may lack some; the first column is their name."""
    cells: list[list[Cell]] = []
    for row in rows:
        cells.append([])
        for key in ("name", *columns[1:]):
            value = row.get(key)
            if key in FRACTIONS and value is not None:  # 4 decimals distinguish 10,000 pairs
                value = f"{value:.4f}"
            cells[-1].append(f"{value:,}" if isinstance(value, int) else value)
    names = [name.replace("_", " ") for name in columns]
    numbers = [it for it in names if it not in ("paradigm", "phenomenon", "field", "paradigms")]
    return Table(columns=names, rows=cells, caption=caption, right_align=numbers)
