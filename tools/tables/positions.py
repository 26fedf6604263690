"""Encoders that differ in their position terms: masked loss, and accuracy on BLiMP's minimal pairs.

Accuracies come from `minimal_pairs.jsonl` next to the runs: what toolkit-validate wrote of each.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from run_records import Run, group, read_lines
from table_cells import Rows, error_cell, mean, spread

VARIANTS = (
    *("none", "learned", "sinusoidal", "alibi", "rope", "t5", "shaw", "xl", "deberta"),
    *("fixed", "composite", "depthwise", "convbert", "taco_words", "taco"),
)
RUN = re.compile(r"(?:arch=order_)?(\w+?)(?:,seed=|-)\d+")
RESULTS = "minimal_pairs.jsonl"
TRAINING = ["seeds", "masked loss", "accuracy (%)"]
PAIRS = ["BLiMP (%)", "standard error", "ties (%)"]
Results = dict[str, list[dict[str, Any]]]
"""Variant -> its results, one for each seed."""


def variant_of(run: str) -> str:
    """`positions/arch=order_rope,seed=0` -> rope; other names remain."""
    name = PurePosixPath(run).name
    match = RUN.fullmatch(name)
    return match[1] if match else name


def name_run(result: dict[str, Any]) -> str:
    """The run of a result: the name that was added to it, else the folder of its checkpoint."""
    return str(result.get("run") or result["path"].rpartition("/checkpoint_")[0] or result["path"])


def read_results(source: Path) -> Results:
    """The results of the runs in a folder, or next to a runs.jsonl file."""
    file = (source if source.is_dir() else source.parent) / RESULTS
    lines = read_lines(file) if file.exists() else []
    return group(lines, lambda result: variant_of(name_run(result)))


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    by_variant, results = group(runs, lambda run: variant_of(run.name)), read_results(source)
    rows = [
        [name, *training_cells(by_variant[name]), *pair_cells(results.get(name, []))]
        for name in VARIANTS
        if name in by_variant
    ]
    yield "positions", [["positions", *TRAINING, *PAIRS], *rows]
    yield "phenomena", phenomenon_rows({it: results[it] for it in VARIANTS if it in results})


def training_cells(runs: Sequence[Run]) -> list[str]:
    """Seeds, loss and accuracy of masked tokens."""
    both = "mlm_accuracy" in runs[0].record["valid"]["valid"]  # mpm has two objectives
    losses = [run.last("mlm_loss") for run in runs]
    accuracies = [run.last("mlm_accuracy" if both else "accuracy") for run in runs]
    return [str(len(runs)), spread(losses, 3), spread(accuracies, 1, 100)]


def pair_cells(results: Sequence[dict[str, Any]]) -> list[str]:
    """Accuracy with its deviation over seeds, its standard error over pairs, and ties."""
    overall = [result["overall"] for result in results]
    if not overall:
        return [""] * len(PAIRS)
    return [
        spread([it["accuracy"] for it in overall], 2, 100),
        error_cell(overall, 2, statistics.mean),
        mean([it["ties"] / it["pairs"] for it in overall], 1, 100),
    ]


def phenomenon_rows(results: Results) -> Rows:
    """Means over seeds by phenomenon, and the largest standard error over pairs."""
    by_name = {
        variant: group(
            [it for result in seeds for it in result["phenomena"]], lambda it: it["name"]
        )
        for variant, seeds in results.items()
    }
    rows = [["phenomenon", *results, "standard error"]]
    for name in sorted(set().union(*by_name.values())):
        seeds = [phenomena.get(name, []) for phenomena in by_name.values()]
        cells = [mean([it["accuracy"] for it in each], 1, 100) if each else "" for each in seeds]
        rows.append([name.replace("_", " "), *cells, error_cell(chain(*seeds), 1)])
    return rows
