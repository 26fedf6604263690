"""Scores on Multi30k's test_2016_flickr, from what scores.py wrote."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group, read_lines
from table_cells import Rows

PARAMETERS = {"transformer_tiny": 2.35, "lightconv_tiny": 2.22, "dynamicconv_tiny": 2.27}
HEAD = ["architecture", "parameters", "weights", "BLEU, mean", "BLEU, each seed"]


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    by_arch = group(runs, lambda run: run.arch)
    rows = [[*HEAD, "lowercase BLEU", "chrF", "minutes per run"]]
    for line in read_lines(source / "scores.jsonl"):
        arch = line["architecture"]
        minutes = statistics.mean(run.record["seconds"] for run in by_arch[arch]) / 60
        seeds = ", ".join(f"{value:.2f}" for value in line["bleu_by_seed"])
        means = [f"{line['bleu_lowercase']:.2f}", f"{line['chrf']:.1f}", f"{minutes:.0f}"]
        size = f"{PARAMETERS[arch]:.2f} M"
        rows.append([f"`{arch}`", size, line["weights"], f"{line['bleu']:.2f}", seeds, *means])
    yield "multi30k", rows
