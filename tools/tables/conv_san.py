"""Tagging accuracy on treebanks, compared with Dufter et al. 2020."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from run_records import Run, group, select_experiment
from table_cells import Rows, spread

HERE = Path(__file__).resolve().parent
PAPER = json.loads((HERE.parents[1] / "examples/conv_san/paper.json").read_text("utf-8"))
METRICS = {
    "all": "accuracy",
    "unknown": "oov_accuracy",
    "ambiguous": "ambiguous_accuracy",
}
NAMES = {
    "none": "none",
    "concat": "PE[con]",
    "add": "PE[add]",
    "p": "P",
    "r": "R",
    "pr": "P+R",
    "temp": "PE[add] + Temp",
    "conv1d": "PE[add] + Conv",
    "conv2d": "PE[add] + Conv2d",
}
"""Rows of the paper's Table 2."""
BASELINE_AND_BEST = ("add", "conv2d")


class Cell(NamedTuple):
    mean: float
    deviation: float
    """Between seeds; NaN for a single one."""

    def text(self, digits: int = 2) -> str:
        spread = "" if math.isnan(self.deviation) else f" ± {self.deviation:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


def variant(run: Run) -> str:
    """add, pr, conv2d ...: the folder of the run's seeds."""
    return run.name.split("/")[-2]


def treebank(run: Run) -> str:
    return run.name.split("/")[1]


def percents(runs: Sequence[Run], metric: str) -> list[float]:
    """Accuracies on the test set at the best epoch of the development set."""
    return [100 * run.best(METRICS[metric], "test") for run in runs]


def cell(values: Sequence[float]) -> Cell:
    return Cell(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else math.nan)


def macro(treebanks: Mapping[str, list[Run]], metric: str = "all") -> Cell:
    """Mean over treebanks of the means, and of the deviations between seeds."""
    cells = [cell(percents(runs, metric)) for runs in treebanks.values()]
    return Cell(*(statistics.mean(column) for column in zip(*cells, strict=True)))


def with_paper(text: str, paper: float | None) -> str:
    return text if paper is None else f"{text} / {paper:.2f}"


def by_treebank(runs: list[Run]) -> Rows:
    """Accuracy on all words, with the paper's."""
    variants_by_bank = {
        bank: group(bank_runs, variant) for bank, bank_runs in group(runs, treebank).items()
    }
    names = [
        name for name in NAMES if any(name in variants for variants in variants_by_bank.values())
    ]
    rows = [["treebank", *(NAMES[name] for name in names)]]
    for bank, variants in sorted(variants_by_bank.items()):
        paper = PAPER["ud"].get(bank, {})
        accuracies = {name: cell(percents(seeds, "all")).text() for name, seeds in variants.items()}
        cells = [
            with_paper(accuracies[name], paper.get(name)) if name in accuracies else "-"
            for name in names
        ]
        rows.append([bank, *cells])
    means = []
    for name in names:
        by_bank = {
            bank: variants[name] for bank, variants in variants_by_bank.items() if name in variants
        }
        papers = [PAPER["ud"][bank][name] for bank in by_bank if bank in PAPER["ud"]]
        paper_mean = statistics.mean(papers) if len(papers) == len(by_bank) else None
        means.append(
            with_paper(macro(by_bank).text(), paper_mean)
            if len(by_bank) == len(variants_by_bank)
            else "-"
        )
    return [*rows, [f"mean of {len(variants_by_bank)}", *means]]


def by_words(runs: list[Run], names: Sequence[str]) -> Rows:
    """Means over treebanks, of all, unknown and ambiguous words."""
    rows = [["model", *(f"{metric} words" for metric in METRICS)]]
    for name in names:
        by_bank = group([run for run in runs if variant(run) == name], treebank)
        if by_bank and len(by_bank) == len(
            group(runs, treebank)
        ):  # else a mean over other treebanks
            rows.append(
                [NAMES[name], *(f"{macro(by_bank, metric).mean:.2f}" for metric in METRICS)]
            )
    return rows


def best_update(validations: list[dict[str, Any]], patience: int) -> int:
    """The best update if training had stopped after `patience` epochs without improvement."""
    accuracy = {v["update"]: v["accuracy"] for v in validations if v["subset"] == "valid"}
    best, waited = min(accuracy), 0
    for update in sorted(accuracy):
        if accuracy[update] > accuracy[best]:
            best, waited = update, 0
        elif update != best and (waited := waited + 1) == patience:
            break
    return best


def after_two_epochs(runs: list[Run]) -> Rows:
    """French-Spoken and the mean over treebanks with patience 2."""
    cells: dict[str, dict[str, list[float]]] = {}
    for (bank, name), seeds in group(runs, lambda run: (treebank(run), variant(run))).items():
        cells.setdefault(bank, {})[name] = [
            100 * run.at(best_update(run.validations, 2), "accuracy", "test") for run in seeds
        ]
    names = [name for name in NAMES if all(name in variants for variants in cells.values())]
    rows = [["patience 2", *(NAMES[name] for name in names)]]
    if "French-Spoken" in cells:
        french = cells["French-Spoken"]
        rows.append(["French-Spoken", *(spread(french[name], 1) for name in names)])
    means = [statistics.mean(statistics.mean(it[name]) for it in cells.values()) for name in names]
    return [*rows, [f"mean of {len(cells)}", *(f"{mean:.2f}" for mean in means)]]


def two_models(runs: list[Run]) -> Rows:
    """Baseline and 2d convolution; two treebanks a row."""
    lines = []
    for bank, bank_runs in sorted(group(runs, treebank).items()):
        models = group(bank_runs, variant)
        cells = [spread(percents(models[name], "all"), 2) for name in BASELINE_AND_BEST]
        lines.append([bank, *cells])
    half = math.ceil(len(lines) / 2)
    padded = [*lines, ["", "", ""]][: 2 * half]
    head = ["treebank", *(NAMES[name] for name in BASELINE_AND_BEST)]
    pairs = zip(padded[:half], padded[half:], strict=True)
    return [head * 2, *(left + right for left, right in pairs)]


def penn(runs: list[Run], spectral: list[Run]) -> Rows:
    measured = {
        name: {metric: cell(percents(seeds, metric)) for metric in METRICS}
        for name, seeds in group(runs, variant).items()
    }
    paper = {name: Cell(*PAPER["penn"][name]["all"]) for name in NAMES}
    head = ["model", *(f"{metric} words" for metric in METRICS), "all words, paper"]
    rows = [[*head, "rank", "rank, paper"]]
    for name in (it for it in NAMES if it in measured):
        ranks = rank({other: it["all"] for other, it in measured.items()}, name), rank(paper, name)
        rows.append([NAMES[name], *texts(measured[name]), paper[name].text(), *ranks])
    if spectral:
        cells = texts({metric: cell(percents(spectral, metric)) for metric in METRICS})
        rows.append(["R as in the authors' code", *cells, paper["r"].text(), "-", "8"])
    return rows


def texts(cells: Mapping[str, Cell]) -> list[str]:
    return [cell.text(2 if metric == "all" else 1) for metric, cell in cells.items()]


def rank(cells: Mapping[str, Cell], name: str) -> str:
    return str(1 + sum(other.mean > cells[name].mean for other in cells.values()))


def cost(runs: list[Run]) -> Rows:
    rows = [["experiment", "runs", "hours of one process", "epochs, median", "epochs, maximum"]]
    for name, of in group(runs, lambda run: run.name.partition("/")[0]).items():
        hours = sum(run.record["seconds"] for run in of) / 3600
        epochs = [run.record["epochs"] for run in of]
        numbers = (f"{hours:.2f}", f"{statistics.median(epochs):.0f}", str(max(epochs)))
        rows.append([f"`{name}`", str(len(of)), *numbers])
    return rows


def tables(runs: list[Run], source: Path) -> Iterator[tuple[str, Rows]]:
    ud, reduced, penn_runs = (select_experiment(runs, name) for name in ("ud", "reduced", "penn"))
    yield "cost", cost(runs)
    if ud:
        yield "ud", by_treebank(ud)
        yield "words", by_words(ud, list(NAMES))
        yield "patience", after_two_epochs(ud)
    if spectral := select_experiment(runs, "ud_spectral"):
        yield "spectral", by_treebank(spectral)
    if reduced:
        yield "reduced", two_models(reduced)
        yield "all", by_words(ud + reduced, BASELINE_AND_BEST)
    if penn_runs:
        yield "penn", penn(penn_runs, select_experiment(runs, "penn_spectral"))
