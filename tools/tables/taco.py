"""TACO, its ablations and BERT, and the same training in two precisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group, select_experiment
from table_cells import Rows, spread

ROWS = {
    "both/taco_192": "TACO",
    "both/taco_192_summed": "TACO without its convolution",
    "words/taco_192": "TACO, masked words only",
    "both/bert_192": "BERT, both objectives",
    "words/bert_192": "BERT, masked words only",
}
WORDS = ["loss of words", "accuracy of words (%)"]
POSITIONS = ["loss of positions", "accuracy of positions (%)"]
UPDATES = (100, 200, 300, 400)


def cells(runs: list[Run], objective: str) -> list[str]:
    if f"{objective}_loss" not in runs[0].record["valid"]["valid"]:
        return ["", ""]
    losses = [run.last(f"{objective}_loss") for run in runs]
    accuracies = [run.last(f"{objective}_accuracy") for run in runs]
    return [spread(losses, 3), spread(accuracies, 1, 100)]


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    models = group(runs, lambda run: f"{run.name.partition('/')[0]}/{run.arch}")
    rows = [
        [title, str(len(models[key])), *cells(models[key], "mlm"), *cells(models[key], "mpm")]
        for key, title in ROWS.items()
        if key in models
    ]
    yield "novels", [["model", "seeds", *WORDS, *POSITIONS], *rows]
    by_precision = group(
        select_experiment(runs, "precision"), lambda run: run.record["config"]["training.precision"]
    )
    rows = [
        [name, *(spread([run.at(update, "loss") for run in seeds], 3) for update in UPDATES)]
        for name, seeds in by_precision.items()
    ]
    yield "precision", [["precision", *(f"{update} updates" for update in UPDATES)], *rows]
