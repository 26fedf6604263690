"""Table of the translations of multi30k.sh: python scores.py RUNS [--into scores.jsonl]

BLEU is computed by sacreBLEU on the text as it is, and on lowercased text, as most published
results on Multi30k are (those on tokenized text).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolkit.metrics.seeds import summarize
from toolkit.metrics.translation import corpus_scores
from toolkit.reporting.tables import Table

WEIGHTS = {"best": "best checkpoint", "averaged-10": "last 10 averaged"}
COLUMNS = ("architecture", "weights", "bleu", "bleu_by_seed", "bleu_lowercase", "chrf")


def score(file: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Scores of an output of toolkit-generate, and their sacreBLEU signatures."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    outputs = [line["hypotheses"][0]["text"] if line["hypotheses"] else "" for line in lines]
    references = [line["reference"] for line in lines]
    scores = {score.name: score for score in corpus_scores(outputs, references)}
    [lower] = corpus_scores(outputs, references, names=["bleu"], lowercase=True)
    by_name = {"bleu": scores["bleu"], "bleu_lowercase": lower, "chrf": scores["chrf"]}
    return {n: s.value for n, s in by_name.items()}, {n: s.signature for n, s in by_name.items()}


def list_outputs(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Architecture, weights and output file."""
    for run in sorted(folder.glob("arch=*")):
        arch = run.name.removeprefix("arch=").partition(",")[0]
        for name, weights in WEIGHTS.items():
            if (file := run / f"{name}.jsonl").exists():
                yield arch, weights, file


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, help="RUNS of multi30k.sh")
    parser.add_argument("--into", type=Path, help="also write the table as JSON lines")
    args = parser.parse_args()
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    signatures: dict[str, str] = {}
    for arch, weights, file in list_outputs(args.runs):
        scores, signatures = score(file)
        for name, value in scores.items():
            values[arch, weights][name].append(value)
    if not values:
        sys.exit(f"{args.runs} has no translations of multi30k.sh.")
    lines: list[dict[str, Any]] = []
    for (arch, weights), scores in values.items():
        means = {name: summarize(seeds).mean for name, seeds in scores.items()}
        line = {"architecture": arch, "weights": weights, **means, "bleu_by_seed": scores["bleu"]}
        lines.append({name: line[name] for name in COLUMNS})
    if args.into:
        args.into.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    rows = [[cell(value) for value in line.values()] for line in lines]
    Table(columns=COLUMNS, rows=rows, right_align=COLUMNS[2:]).print()
    for name, signature in signatures.items():
        print(f"{name}: {signature}")


def cell(value: str | float | list[float]) -> str:
    if isinstance(value, list):
        return " ".join(f"{it:.2f}" for it in value)
    return value if isinstance(value, str) else f"{value:.2f}"


if __name__ == "__main__":
    main()
