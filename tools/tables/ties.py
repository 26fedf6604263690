"""Accuracies on minimal pairs under different rules for ties, rounding and length.

`counts.jsonl` has the pairs that each run scores right and ties, by rule and paradigm; those of
encoders that were trained longer follow from the results of examples/positions.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from run_records import Run, group, read_lines
from table_cells import Rows, mean, spread

HERE = Path(__file__).resolve()
POSITIONS = runpy.run_path(str(HERE.with_name("positions.py")))
COUNTS = "counts.jsonl"
RULES = {
    "sum": "equal within 0.0001",
    "exact": "equal in float32",
    "decimals": "rounded to 4 decimals",
    "bf16_scores": "rounded to bf16",
    "bf16_model": "model in bf16, equal within 0.04",
    "bf16_exact": "model in bf16, equal",
    "mean": "mean per token, within rounding",
    "length": "no model: fewer tokens",
}
"""Rule -> its row."""
SHARES = {"one half": 0.5, "right": 1.0, "wrong": 0.0}
"""How ties count -> their part of an item."""
Counts = Sequence[dict[str, Any]]
"""Lines of counts.jsonl, one for each seed."""


def read_counts(source: Path) -> dict[str, Counts]:
    """Encoder -> its runs, in a folder or next to a runs.jsonl file."""
    lines = read_lines((source if source.is_dir() else source.parent) / COUNTS)
    return group(lines, lambda line: line["run"].partition(",")[0])


def accuracy(line: dict[str, Any], rule: str, share: float, kept: Sequence[bool] = ()) -> float:
    """Of all pairs, or of those of some paradigms; ties count as a share of a right answer."""
    kept = kept or [True] * len(line["pairs"])
    right, tied, pairs = (
        sum(n for n, keep in zip(numbers, kept, strict=True) if keep)
        for numbers in (*line["rules"][rule], line["pairs"])
    )
    return float((right + share * tied) / pairs)


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    counts = read_counts(source)
    if blind := counts.get("none"):
        yield "rules", [rule_head(), *(rule_row(blind, rule) for rule in RULES)]
        yield "permuted", permuted_rows(blind)
    yield "encoders", encoder_rows(counts)
    yield "trained", trained_rows(HERE.parents[2] / "examples" / "positions")


def rule_head() -> list[str]:
    return ["scores are", *(f"ties {name} (%)" for name in SHARES), "ties (%)"]


def rule_row(lines: Counts, rule: str) -> list[str]:
    cells = [spread([accuracy(it, rule, part) for it in lines], 2, 100) for part in SHARES.values()]
    tied = [sum(it["rules"][rule][1]) / sum(it["pairs"]) for it in lines]
    return [RULES[rule], *cells, mean(tied, 1, 100)]


def encoder_rows(counts: dict[str, Counts]) -> Rows:
    """A row for each encoder: two rules, and the others that change something."""
    rows = [["positions", "seeds", "masked loss", *rule_head()[1:], "equal in float32, right (%)"]]
    for name in POSITIONS["VARIANTS"]:
        if not (lines := counts.get(name)):
            continue
        cells = rule_row(lines, "sum")[1:]
        exact = spread([accuracy(it, "exact", 1.0) for it in lines], 2, 100)
        loss = spread([it["loss"] for it in lines], 3)
        rows.append([name, str(len(lines)), loss, *cells, exact])
    return rows


def permuted_rows(lines: Counts) -> Rows:
    """Paradigms whose two sentences have the same words, in another order."""
    first = lines[0]
    same = [both == pairs for both, pairs in zip(first["permuted"], first["pairs"], strict=True)]
    asked = [("sum", 0.5), ("sum", 1.0), ("exact", 1.0), ("bf16_exact", 1.0), ("sum", 0.0)]
    rows = [
        ["paradigm", "half (%)", "first (%)", "float32, first (%)", "bf16, first (%)", "wrong (%)"]
    ]
    for place, name in enumerate(first["paradigms"]):
        if same[place]:
            kept = [index == place for index in range(len(same))]
            cells = [spread([accuracy(it, *rule, kept) for it in lines], 1, 100) for rule in asked]
            rows.append([name, *cells])
    if any(same):
        cells = [spread([accuracy(it, *rule, same) for it in lines], 1, 100) for rule in asked]
        rows.append([f"all {sum(same)}", *cells])
    return rows


def trained_rows(folder: Path) -> Rows:
    """All pairs of BLiMP by encoders of 10,500 updates, from their accuracies with halves."""
    results = POSITIONS["read_results"](folder)
    rows = [["positions", "seeds", *rule_head()[1:]]]
    for name in POSITIONS["VARIANTS"]:
        found = [it["overall"] for it in results.get(name, [])]
        ties = [it["ties"] / it["pairs"] for it in found]
        cells = [
            spread(
                [
                    it["accuracy"] + (part - 0.5) * tied
                    for it, tied in zip(found, ties, strict=True)
                ],
                2,
                100,
            )
            for part in SHARES.values()
        ]
        rows.append([name, str(len(found)), *cells, mean(ties, 1, 100)])
    return rows
