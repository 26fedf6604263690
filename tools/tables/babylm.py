"""Variants of a small encoder at equal words: masked loss, and its paired difference from the base.

Losses come from `loss.jsonl` next to the runs, accuracies from `pairs.jsonl`: what toolkit-validate
wrote of each run's last checkpoint.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from run_records import Run, read_lines
from table_cells import Rows, error_cell, mean, spread

from toolkit.metrics.seeds import PairedDifference, compare_pairs

RUN = re.compile(r"config=([\w-]+)\.yaml,seed=(\d+)")
BASE = "base"
VARIANTS = (
    *(BASE, "mask-decay", "adaptive-masks", "whole-words", "hybrid", "weighted-residuals"),
    *("value-residual", "attention-gate", "smeared-keys", "qk-norm", "z-loss", "composite"),
    *("muon", "normuon", "r-drop"),
)
Lines = Mapping[str, Mapping[int, Any]]
"""Variant -> seed -> its line of a file, or a number of it."""


def by_variant(lines: list[tuple[str, Any]]) -> dict[str, dict[int, Any]]:
    """Of pairs of a run's name, at the end of a path or not, and what is known of it."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for name, line in lines:
        if match := RUN.search(name):
            found[match[1]][int(match[2])] = line
    return {name: found[name] for name in VARIANTS if name in found}


def read_results(source: Path, file: str, key: str) -> dict[str, dict[int, Any]]:
    """The results in a folder, or next to a runs.jsonl file."""
    path = (source if source.is_dir() else source.parent) / file
    return by_variant([(it[key], it) for it in read_lines(path)] if path.exists() else [])


def differences(values: Mapping[str, Mapping[int, float]]) -> dict[str, PairedDifference]:
    """Variant -> its difference from the base, over the seeds that both have."""
    base = values.get(BASE, {})
    return {
        name: compare_pairs([seeds[it] for it in both], [base[it] for it in both])
        for name, seeds in values.items()
        if name != BASE and (both := sorted(seeds.keys() & base.keys()))
    }


def masked_losses(source: Path) -> dict[str, dict[int, float]]:
    """Variant -> seed -> the loss of the same masked tokens for all."""
    lines = read_results(source, "loss.jsonl", "checkpoint")
    return {
        name: {seed: float(line.get("mntp_loss", line["loss"])) for seed, line in seeds.items()}
        for name, seeds in lines.items()
    }


def interval(found: PairedDifference | None) -> list[str]:
    """The mean difference, and its interval if there are two pairs."""
    if found is None or found.mean is None:
        return ["", ""]
    both = "" if found.low is None else f"{found.low:+.3f} to {found.high:+.3f}"
    return [f"{found.mean:+.3f}", both]


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    losses, seconds = masked_losses(source), by_variant([(it.name, it.record) for it in runs])
    found = differences(losses)
    rows = [["variant", "seeds", "masked loss", "difference", "95 % interval", "seconds"]]
    for name, values in losses.items():
        times = [it["seconds"] for it in seconds.get(name, {}).values()]
        cells = [name, str(len(values)), spread([*values.values()], 3), *interval(found.get(name))]
        rows.append([*cells, mean(times, 0) if times else ""])
    yield "ablations", rows
    yield "pairs", pair_rows(source)


def pair_rows(source: Path) -> Rows:
    """Accuracies on pairs, and the largest standard error over pairs."""
    rows = [["variant", "seeds", "set", "accuracy (%)", "standard error", "difference", "interval"]]
    path = (source if source.is_dir() else source.parent) / "pairs.jsonl"
    lines = [it for it in read_lines(path) if "set" in it] if path.exists() else []
    for each in dict.fromkeys(it["set"] for it in lines):
        sets = by_variant([(it["path"], it) for it in lines if it["set"] == each])
        scores = {
            name: {seed: 100 * it["score"] for seed, it in seeds.items()}
            for name, seeds in sets.items()
        }
        found = differences(scores)
        for name, values in scores.items():
            error = error_cell(sets[name].values(), 1)
            cells = [name, str(len(values)), each, spread([*values.values()], 1), error]
            rows.append([*cells, *interval(found.get(name))])
    return rows
