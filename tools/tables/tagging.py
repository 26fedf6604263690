"""Fine-tuned encoders and a tagger that was trained from scratch, on the test set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from run_records import Run, group
from table_cells import Rows, spread

ROWS = {
    "conv_san": ("`conv_san_ud`, trained on the treebank alone", "3.04 M"),
    "taco_mpm": ("`taco_192`, pre-trained with mlm and mpm, fine-tuned", "3.02 M"),
    "convbert_rtd": ("`convbert_192`, pre-trained with rtd, fine-tuned", "2.79 M"),
}
METRICS = {
    "accuracy": "all words",
    "oov_accuracy": "unknown words",
    "ambiguous_accuracy": "ambiguous words",
    "macro_f1": "macro F1",
}


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    tested = [run for run in runs if "results" in run.record]
    models = group(tested, lambda run: run.name.partition("/")[0])
    rows = [["tagger", "parameters", "seeds", *METRICS.values()]]
    for name, seeds in models.items():
        values = [[run.record["results"]["test"][key] for run in seeds] for key in METRICS]
        title, parameters = ROWS.get(name, (name, ""))
        rows.append([title, parameters, str(len(seeds)), *(spread(it, 2, 100) for it in values)])
    yield "test", rows
