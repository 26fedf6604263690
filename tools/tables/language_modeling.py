"""Perplexities of language models by their positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group
from table_cells import Rows, spread

PARAMETERS = {
    "neither": 0,
    "learned": 49152,
    "sinusoidal": 0,
    "t5": 512,
    "shaw": 3264,
    "composite": 3536,
}
"""More than in the model without positions."""
OLD_NAMES = {"learnt": "learned"}
"""Of the option's values."""


def positions(run: Run) -> str:
    name = run.record["config"].get("arch.positions", "none")
    return "neither" if name == "none" else OLD_NAMES.get(name, name)


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    models = group(runs, positions)
    updates = sorted({v["update"] for run in runs for v in run.validations})
    heads = [f"ppl after {n:,} updates" for n in updates]
    rows = [["positions", "seeds", *heads, "word ppl", "added parameters"]]
    for name in (it for it in PARAMETERS if it in models):
        seeds = models[name]
        digits = [1] * (len(updates) - 1) + [2]
        ppls = [
            spread([run.at(n, "ppl") for run in seeds], d)
            for n, d in zip(updates, digits, strict=True)
        ]
        word_ppl = spread([run.last("word_ppl") for run in seeds], 1)
        rows.append([name, str(len(seeds)), *ppls, word_ppl, f"{PARAMETERS[name]:,}"])
    yield "novels", rows
