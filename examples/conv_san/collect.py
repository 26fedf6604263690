"""Our accuracy beside the paper's, from the runs of treebanks.sh, reduced.sh or penn.sh:

python collect.py RUNS [--reduced RUNS] [--copy FOLDER] [--patience N]

RUNS holds a folder for each treebank, or is that of penn.sh. Test accuracy is that of the epoch of
best development accuracy, in percent, the mean over seeds with its standard deviation. Those of
--reduced, of reduced.sh, stand in the same table, but never beside the paper's. With --copy, the
records of finished runs (result.json, metrics.jsonl) are copied to FOLDER too. --patience says what
the same runs would have been had they ended after fewer epochs without gain.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = "**/*seed=*/result.json"
RECORDS = ("result.json", "metrics.jsonl")
FIGURES = {"all": "accuracy", "oov": "oov_accuracy", "ambiguous": "ambiguous_accuracy"}
PAPER = json.loads((Path(__file__).parent / "paper.json").read_text("utf-8"))


class Run(NamedTuple):
    treebank: str
    model: str
    seed: int
    figures: dict[str, float]
    """all, oov and ambiguous, in percent; NaN where there are no such words."""
    epochs: int
    words_per_second: float
    seconds: float


def finished(folder: Path, patience: int | None = None) -> Run | None:
    """The run of a folder, or what it was when `patience` ended; None where it has not ended."""
    if not all((folder / name).exists() for name in RECORDS):
        return None
    result = json.loads((folder / "result.json").read_text("utf-8"))
    if result["signal"]:
        return None
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    valid = {
        subset: {e["update"]: e for e in events if e["event"] == "valid" and e["subset"] == subset}
        for subset in ("valid", "test")
    }
    best = result["best"]["update"] if patience is None else best_of(valid["valid"], patience)
    tested, config = valid["test"][best], result["config"]
    return Run(
        folder.parent.name,
        config["arch"]["name"],
        config["training"]["seed"],
        {name: 100 * tested.get(key, math.nan) for name, key in FIGURES.items()},
        result["epochs"],
        statistics.mean(e["tokens_per_second"] for e in events if e["event"] == "train"),
        result["seconds"],
    )


def best_of(epochs: dict[int, dict[str, Any]], patience: int) -> int:
    """The update of most accuracy before so many epochs without gain."""
    best, waited = min(epochs), 0
    for update in sorted(epochs):
        if epochs[update]["accuracy"] > epochs[best]["accuracy"]:
            best, waited = update, 0
        elif update != best and (waited := waited + 1) == patience:
            break
    return best


def runs_of(folder: Path | None, patience: int | None, mark: str = "") -> list[Run]:
    """The finished ones; `mark` is put behind the treebank's name."""
    paths = sorted(folder.glob(RESULTS)) if folder else []
    found = [run for path in paths if (run := finished(path.parent, patience))]
    return [run._replace(treebank=run.treebank + mark) for run in found]


class Cell(NamedTuple):
    mean: float
    deviation: float
    """Between seeds; 0 where there is one alone."""
    seeds: int

    def __str__(self) -> str:
        spread = f" ±{self.deviation:.2f}" if self.seeds > 1 else ""
        return "-" if math.isnan(self.mean) else f"{self.mean:.2f}{spread}"


def cell(values: list[float]) -> Cell:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Cell(statistics.mean(values), deviation, len(values))


def cells(runs: list[Run], figure: str) -> dict[str, dict[str, Cell]]:
    """Treebank -> model -> its figure over the seeds."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        values[run.treebank][run.model].append(run.figures[figure])
    return {
        treebank: {model: cell(found) for model, found in of_models.items()}
        for treebank, of_models in values.items()
    }


def macro(of_treebanks: dict[str, dict[str, Cell]], model: str) -> Cell | None:
    """Mean over the treebanks and the mean of their deviations; None where one has no such run.

    Means over different treebanks could not be compared.
    """
    found = [models[model] for models in of_treebanks.values() if model in models]
    if not found or len(found) < len(of_treebanks):
        return None
    mean, deviation = (statistics.mean(column) for column in list(zip(*found, strict=True))[:2])
    return Cell(mean, deviation, min(cell.seeds for cell in found))


def table(rows: list[list[Any]]) -> None:
    """As Markdown, the first row its head."""
    head, *others = ([str(value) for value in row] for row in rows)
    for row in (head, ["---"] * len(head), *others):
        print("| " + " | ".join(row) + " |")
    print()


def by_treebank(runs: list[Run], models: list[str]) -> None:
    """All words: ours, and the paper's behind a slash where it has the treebank."""
    found = cells(runs, "all")
    rows: list[list[Any]] = [["treebank", *(short(model) for model in models), "seeds"]]
    for treebank, of_models in sorted(found.items()):
        paper = PAPER["ud"].get(treebank, {})
        ours = [beside(of_models.get(model), paper.get(model)) for model in models]
        fewest = min(cell.seeds for cell in of_models.values())
        rows.append([treebank, *ours, fewest])
    groups = {
        "mean": found,
        "mean of the paper's": {t: found[t] for t in found if t in PAPER["ud"]},
    }
    for name, group in groups.items():
        whole = group and all(treebank in PAPER["ud"] for treebank in group)
        means = [beside(macro(group, m), of_paper(group, m) if whole else None) for m in models]
        rows.append([f"{name} ({len(group)})", *means, ""])
    table(rows if len(groups["mean"]) > len(groups["mean of the paper's"]) else rows[:-1])


def of_paper(treebanks: Iterable[str], model: str) -> float:
    return statistics.mean(PAPER["ud"][treebank][model] for treebank in treebanks)


def beside(ours: Cell | None, paper: float | None) -> str:
    text = "-" if ours is None else str(ours)
    return text if paper is None else f"{text} / {paper:.2f}"


def by_model(runs: list[Run], models: list[str], paper: dict[str, Any]) -> None:
    """All, OOV and ambiguous words: mean over treebanks and the mean of their deviations.

    The paper's are those over its 47 treebanks.
    """
    of_others = [f"{name}, paper" for name in FIGURES] if paper else []
    rows: list[list[Any]] = [["model", *FIGURES, *of_others]]
    for model in models:
        ours = [macro(cells(runs, figure), model) or "-" for figure in FIGURES]
        theirs = [Cell(*paper[model][figure], 3) for figure in FIGURES] if paper else []
        rows.append([short(model), *ours, *theirs])
    table(rows)


def short(model: str) -> str:
    return model.removeprefix("conv_san_").removeprefix("ud_")


def speed(runs: list[Run]) -> None:
    words, epochs = (
        [getattr(run, name) for run in runs] for name in ("words_per_second", "epochs")
    )
    hours, middle = sum(run.seconds for run in runs) / 3600, statistics.median
    print(
        f"{len(runs)} runs, {hours:.2f} hours of one process; median {middle(epochs):.0f} epochs "
        f"(most {max(epochs)}), {middle(words):,.0f} words/s in training."
    )


def copy(source: Path, target: Path) -> None:
    """The records of every finished run."""
    for path in sorted(source.glob(RESULTS)):
        if finished(path.parent):
            place = target / path.parent.relative_to(source)
            place.mkdir(parents=True, exist_ok=True)
            for name in RECORDS:
                shutil.copyfile(path.parent / name, place / name)
            result = nameless(json.loads(path.read_text("utf-8")))
            (place / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def nameless(value: Any) -> Any:
    """The same with absolute paths cut to their last part: they say nothing elsewhere."""
    if isinstance(value, dict):
        return {key: nameless(one) for key, one in value.items()}
    if isinstance(value, list):
        return [nameless(one) for one in value]
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="folder of finished runs")
    parser.add_argument("--reduced", type=Path, help="folder of the runs of reduced.sh")
    parser.add_argument("--copy", type=Path, help="folder for the records of RUNS")
    parser.add_argument(
        "--patience", type=int, help="epochs without gain; the runs' own if not given"
    )
    given = parser.parse_args()
    complete = runs_of(given.runs, given.patience)
    runs = complete + runs_of(given.reduced, given.patience, " (reduced)")
    if not runs:
        parser.error(f"{given.runs} holds no finished run")
    of_penn = not any("_ud_" in run.model for run in runs)
    paper = PAPER["penn" if of_penn else "ud_macro"]
    models = [model for model in paper if any(run.model == model for run in runs)]
    if not of_penn:
        by_treebank(runs, models)
    by_model(complete or runs, models, paper)
    if complete and len(complete) < len(runs):
        print(f"The same over all {len({run.treebank for run in runs})} treebanks:\n")
        by_model(runs, models, {})
    speed(runs)
    if given.copy:
        copy(given.runs, given.copy)


if __name__ == "__main__":
    main()
